"""Fit the rule that scales the noise a network is conditioned on, place by place.

    python benchmarks/noise/fit_conditioning.py FILE... [--write]

FILE     examples that `benchmarks/noise/conditioning_examples.py` made
--write  fit to all of them and write src/pdflow/noise/conditioning.json

Prints, for each kind of cloud, the squared distance from the surface over that without the rule, by
folds: geometric means over clouds that a rule was fitted without, and the worst of them. Takes some
minutes on one core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from conditioning_examples import FACTORS, SEED
from fit_noise_estimate import Reader, rounded, whitened
from torch import Tensor, nn

from pdflow.noise.conditioning import LARGEST, LEVELS
from pdflow.provenance import source_version

ROOT = Path(__file__).resolve().parents[2]
COEFFICIENTS = ROOT / "src/pdflow/noise/conditioning.json"
FOLDS, HIDDEN, POOLED, CONTEXT = 5, 32, 16, 24
STEPS, CLOUDS, RATE, DECAY = 2000, 32, 4e-3, 0.05
CAUTION = 0.1
"""Weight of the logarithm of a factor: without evidence it is 0."""

NEUTRAL = 1.2
"""Factor that suits single patches of ordinary clouds. A run averages patches and passes, and does
without it; the rule learns what differs from it."""

JITTER = 0.15
"""Random offsets of the inputs, in standard deviations."""


class Rule(Reader):
    """`pdflow.noise.conditioning.log_factors` with gradients."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs, HIDDEN, POOLED, CONTEXT, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logarithms of factors (clouds, Q)."""
        return LARGEST * torch.tanh(self.say(x)[0][..., 0])


class Examples:
    """What the rule reads, and what each factor costs."""

    def __init__(self, files: list[Path]) -> None:
        parts = [dict(np.load(file)) for file in files]
        stacked = {k: np.concatenate([part[k] for part in parts]) for k in parts[0]}
        fair = (stacked["sigma"] > 0) & np.isfinite(stacked["costs"]).all((1, 2))
        stacked = {key: values[fair] for key, values in stacked.items()}
        self.names = stacked["name"]
        self.numbers = stacked["descriptions"].astype(np.float64)
        reach = stacked["reaches"]
        logs = np.log(reach)
        middle = logs.mean(1, keepdims=True)
        level = np.log(stacked["sigma"])[:, None] - logs
        error = np.broadcast_to(np.log(stacked["error"])[:, None], logs.shape)
        self.further = np.stack([np.clip(logs - middle, -3, 3), np.clip(level, *LEVELS), error], -1)
        self.near = torch.from_numpy(stacked["near"].astype(np.int64))
        costs = np.log(np.maximum(stacked["costs"], 1e-6))
        costs = torch.from_numpy(costs).float()
        self.costs = costs - cost(costs, torch.zeros(costs.shape[:2]))[..., None]

    def inputs(self, mean: np.ndarray, whitening: np.ndarray) -> Tensor:
        """(clouds, Q, C): what a module reads."""
        x = np.clip((self.numbers - mean) @ whitening, -5, 5)
        return torch.from_numpy(np.concatenate([x, self.further], -1).astype(np.float32))


def cost(costs: Tensor, factor: Tensor) -> Tensor:
    """(clouds, P): logarithm of the cost of log factors (clouds, P), between those measured."""
    knots = torch.log(torch.tensor(FACTORS) / NEUTRAL)
    right = torch.searchsorted(knots, factor.detach().contiguous()).clamp(1, len(FACTORS) - 1)
    low, high = (costs.gather(-1, (right - i)[..., None])[..., 0] for i in (1, 0))
    share = (factor - knots[right - 1]) / (knots[right] - knots[right - 1])
    return low + share * (high - low)


def patch_factors(said: Tensor, near: Tensor) -> Tensor:
    """(clouds, P): mean log factors of the queries near each patch."""
    clouds, patches, nearby = near.shape
    return said.gather(1, near.reshape(clouds, -1)).reshape(clouds, patches, nearby).mean(-1)


def fit(examples: Examples, rows: np.ndarray) -> tuple[Rule, np.ndarray, np.ndarray]:
    """The rule fitted to some clouds."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    mean, whitening = whitened(examples.numbers[rows].reshape(-1, examples.numbers.shape[-1]))
    x = examples.inputs(mean, whitening)
    module = Rule(x.shape[-1])
    optimizer = torch.optim.AdamW(module.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS)
    kept = torch.from_numpy(rows)
    for _ in range(STEPS):
        some = kept[torch.randint(len(kept), (CLOUDS,))]
        batch = x[some] + JITTER * torch.randn(CLOUDS, 1, x.shape[-1])
        factors = patch_factors(module(batch), examples.near[some])
        # Not its logarithm: doubling the error of one cloud outweighs halving that of another.
        loss = (torch.exp(cost(examples.costs[some], factors)) + CAUTION * factors.abs()).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return module, mean, whitening


def by_folds(examples: Examples) -> None:
    """Print how each kind does with rules that were fitted without its clouds."""
    count = len(examples.names)
    factors = torch.zeros(examples.costs.shape[:2])
    for fold in range(FOLDS):
        held = np.arange(count) % FOLDS == fold
        module, mean, whitening = fit(examples, np.flatnonzero(~held))
        with torch.no_grad():
            said = module(examples.inputs(mean, whitening)[held])
            factors[held] = patch_factors(said, examples.near[held])
    costs = cost(examples.costs, factors).mean(1).numpy()
    best = examples.costs.mean(1).min(1).values.numpy()
    logs = factors.mean(1).numpy()
    print(
        "kind, clouds: factor (10, 50, 90 %); cost over that without the rule, worst; best factor"
    )
    for kind in sorted(set(examples.names)):
        own = examples.names == kind
        low, middle, high = np.exp(np.quantile(logs[own], [0.1, 0.5, 0.9]))
        print(
            f"{kind:20} {own.sum():4}  {low:.2f} {middle:.2f} {high:.2f}  "
            f"{np.exp(costs[own].mean()):.3f} {np.exp(costs[own].max()):.2f}  "
            f"{np.exp(best[own].mean()):.3f}"
        )
    print(f"all {np.exp(costs.mean()):.4f}, best factor {np.exp(best.mean()):.4f}")


def as_document(module: Rule, mean: np.ndarray, whitening: np.ndarray) -> dict[str, Any]:
    """The rule as it is shipped."""
    return {"mean": rounded(mean), "whitening": rounded(whitening), "layers": module.layers()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--write", action="store_true", help="fit to all, write the file")
    arguments = parser.parse_args()
    examples = Examples(arguments.files)
    by_folds(examples)
    if arguments.write:
        document = as_document(*fit(examples, np.arange(len(examples.names))))
        about = {
            "made by": "benchmarks/noise/fit_conditioning.py --write",
            "commit": source_version(),
            "seed": SEED,
            "data": f"{len(examples.names)} clouds: training shapes of PUSet, scenes",
        }
        text = json.dumps({"about": about, **document}, separators=(",", ":"))
        COEFFICIENTS.write_text(text + "\n", "utf-8")
        print(f"wrote {COEFFICIENTS.relative_to(ROOT)}, {COEFFICIENTS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
