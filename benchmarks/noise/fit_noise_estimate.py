"""Fit the network of the noise estimate to noisy clouds with known truth.

    python benchmarks/noise/fit_noise_estimate.py FILE [--check] [--write]

FILE     examples that `benchmarks/noise/noise_examples.py` made
--check  fit to four fifths of the shapes and scenes, and print the errors on the others
--write  fit to all of them and write src/pdflow/noise/estimate.json

Takes some minutes on one core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from noise_examples import SEED, Examples, load_examples
from torch import Tensor, nn

from pdflow.noise.network import (
    DEVIATION,
    FLOOR,
    LOG_SPREADS,
    MOST,
    OFFSET,
    WINSORISED,
    Network,
    network_from,
)
from pdflow.provenance import source_version

ROOT = Path(__file__).resolve().parents[2]
COEFFICIENTS = ROOT / "src/pdflow/noise/estimate.json"

LARGEST = 1.2
"""Noise above this many reaches is not distinguished: the estimate thins such clouds."""

JUDGED = 0.8
"""Only clouds whose noise is below this many reaches count in the loss of whole clouds."""

LEAST_VARIANCE = 1e-3
"""Added to that of each direction of the inputs, so that rounding is not amplified."""

HIDDEN, POOLED, CONTEXT = 96, 48, 64
EPOCHS, CLOUDS_PER_STEP, QUERIES_PER_STEP, RATE, DECAY = 24, 16, 100, 4e-3, 0.02
CLOUD_WEIGHT, SURE_WEIGHT, KIND_WEIGHT = 40.0, 0.3, 5.0
"""Weights of a cloud's error, of its own expectation of that error, and of its kind, relative to
the likelihood of one query."""

ERROR = 0.3
"""Errors of the logarithm of a cloud's level up to this count as squares: where noise may be of
either kind, a level in between is nearly right for both."""

SHAPE_WEIGHT = 10.0
"""Weight of clouds of PUSet's shapes with independent noise: benchmarks are made of these."""

KIND_FROM = 0.03
"""Noise of fewer reaches shows no kind."""


class Reader(nn.Module):
    """`pdflow.noise.network.Network.say` with gradients."""

    def __init__(self, inputs: int, hidden: int, pooled: int, context: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.pooled = nn.Linear(hidden, pooled)
        self.context = nn.Linear(2 * (pooled + inputs), context)
        self.third = nn.Linear(hidden + context, hidden)
        self.query = nn.Linear(hidden, outputs)

    def say(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What is said of each query (clouds, Q, outputs), and the context of each cloud."""
        silu = nn.functional.silu
        hidden = silu(self.second(silu(self.first(x))))
        pooled = torch.cat([x, self.pooled(hidden)], -1)
        mean, var = pooled.mean(1), pooled.var(1, correction=0)
        context = silu(self.context(torch.cat([mean, torch.sqrt(var + 1e-6)], -1)))
        around = context[:, None].expand(-1, x.shape[1], -1)
        return self.query(silu(self.third(torch.cat([hidden, around], -1)))), context

    def layers(self) -> dict[str, Any]:
        """Coefficients as they are shipped."""
        return {
            name: {"weights": rounded(layer.weight), "bias": rounded(layer.bias)}
            for name, layer in self.named_children()
        }


class Module(Reader):
    """`pdflow.noise.network.Network` with gradients."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs, HIDDEN, POOLED, CONTEXT, 2)
        self.cloud = nn.Linear(CONTEXT, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Ratios and spreads (clouds, Q), and expected errors and kinds (clouds,)."""
        said, context = self.say(x)
        ratio, spread = said.unbind(-1)
        expected, kind = self.cloud(context).unbind(-1)
        return ratio, spread.clamp(*LOG_SPREADS), expected.clamp(-4, 1), kind


def cloud_level(ratio: Tensor, spread: Tensor, reach: Tensor, most: Tensor) -> Tensor:
    """(clouds,): what queries say together, as in `pdflow.noise.network.agreed_level`."""
    local = torch.minimum((torch.exp(ratio) - OFFSET).clamp(min=0), most) * reach
    weights = torch.exp(-2 * spread)
    with torch.no_grad():
        ordered, order = local.sort(1)
        total = weights.gather(1, order).cumsum(1)
        total = total / total[:, -1:]
        low, high = (ordered.gather(1, (total < q).sum(1, keepdim=True)) for q in WINSORISED)
    local = torch.minimum(torch.maximum(local, low), high)
    return torch.sqrt((weights * local**2).sum(1) / weights.sum(1) + 1e-12)


def fit(examples: Examples) -> dict[str, Any]:
    """The network as a document, fitted to every query and, more so, to every cloud.

    For a query, the network predicts log(sigma / reach + OFFSET) and its spread (the likelihood of
    a Laplace distribution). For a cloud, what the queries say together should be right, and the
    network predicts how far it is off, and whether the noise is correlated.
    """
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # small layers: a second thread costs more than it brings
    inputs = examples.descriptions
    mean, whitening = whitened(inputs.reshape(-1, inputs.shape[-1]).astype(np.float64))
    reach = torch.from_numpy(examples.reaches)
    ratios = torch.from_numpy(examples.sigmas) / reach
    y = torch.log(ratios.clamp(max=LARGEST) + OFFSET)
    x = torch.from_numpy(np.clip((inputs - mean) @ whitening, -5, 5).astype(np.float32))
    logs = torch.log(reach)
    x = torch.cat([x, (logs - logs.mean(1, keepdim=True)).clamp(-3, 3)[..., None]], -1)
    most = torch.from_numpy(np.exp(2 * inputs[..., DEVIATION]) - FLOOR**2)
    most = MOST * torch.sqrt(most.clamp(min=0))
    middle = reach.median(1).values
    level = torch.from_numpy(examples.levels)
    weight = (level / middle < JUDGED).float()
    weight *= torch.from_numpy(np.where(examples.kinds == "shape", SHAPE_WEIGHT, 1.0)).float()
    correlated = torch.from_numpy(examples.correlated)
    shows = torch.isfinite(correlated) & (level / middle > KIND_FROM) & (level / middle < JUDGED)
    correlated = torch.nan_to_num(correlated)

    network = Module(x.shape[-1])
    steps = len(x) // CLOUDS_PER_STEP
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * steps)
    for epoch in range(EPOCHS):
        losses = np.zeros(4)
        for rows in torch.randperm(len(x))[: steps * CLOUDS_PER_STEP].split(CLOUDS_PER_STEP):
            some = torch.randperm(x.shape[1])[:QUERIES_PER_STEP]
            ratio, spread, expected, kind = network(x[rows][:, some])
            of_queries = ((ratio - y[rows][:, some]).abs() * torch.exp(-spread) + spread).mean()
            said = cloud_level(ratio, spread, reach[rows][:, some], most[rows][:, some])
            floor = OFFSET * middle[rows]
            error = torch.log((said + floor) / (level[rows] + floor))
            of_clouds = nn.functional.huber_loss(
                error, torch.zeros_like(error), delta=ERROR, reduction="none"
            )
            of_clouds = (weight[rows] * of_clouds).mean()
            off = error.detach().abs()
            of_expected = (off * torch.exp(-expected) + expected).mean()
            of_kind = nn.functional.binary_cross_entropy_with_logits(
                kind, correlated[rows], weight=shows[rows].float()
            )
            loss = of_queries + CLOUD_WEIGHT * of_clouds
            loss = loss + SURE_WEIGHT * of_expected + KIND_WEIGHT * of_kind
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses += [
                float(part.detach()) for part in (of_queries, of_clouds, of_expected, of_kind)
            ]
        print(f"epoch {epoch + 1}:", *(f"{part:.4f}" for part in losses / steps), flush=True)
    return {"mean": rounded(mean), "whitening": rounded(whitening), "layers": network.layers()}


def whitened(inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (C,) and matrix (C, C) that make columns of inputs (R, C) uncorrelated, of variance 1.

    Sizes of neighbouring scales are nearly the same; what counts is how they differ.
    """
    mean = inputs.mean(axis=0)
    values, axes = np.linalg.eigh(np.cov((inputs - mean).T))
    return mean, axes / np.sqrt(values + LEAST_VARIANCE)


def rounded(values: Any) -> Any:
    """Nested lists of numbers with four digits, which is all that can be measured."""
    numbers = np.asarray(values.detach() if hasattr(values, "detach") else values, np.float64)
    return np.vectorize(lambda number: float(f"{number:.4g}"))(numbers).tolist()


def as_text(document: dict[str, Any], examples: Examples) -> str:
    shapes = len(set(examples.sources[examples.sources >= 0]))
    about = {
        "made by": "benchmarks/noise/fit_noise_estimate.py --write",
        "commit": source_version(),
        "seed": SEED,
        "data": f"{len(examples.levels)} clouds: {shapes} training shapes of PUSet, scenes",
    }
    return json.dumps({"about": about, **document}, separators=(",", ":")) + "\n"


def part_of(examples: Examples, rows: np.ndarray) -> Examples:
    return Examples(*(column[rows] for column in examples))


def report(network: Network, examples: Examples) -> None:
    """Print the errors of estimates for each kind of cloud."""
    print("kind, clouds; 5, 50, 95 % of said / true; clean: 90 % of said / reach; right kinds")
    results = [read_cloud(network, examples, row) for row in range(len(examples.levels))]
    said, expected, correlated = np.array(results).T
    middle = np.median(examples.reaches, axis=1)
    share = examples.levels / middle
    fair = (share > 0.02) & (share < JUDGED)
    clean = examples.levels == 0
    for kind in sorted(set(examples.kinds)):
        own = examples.kinds == kind
        ratio = said[own & fair] / examples.levels[own & fair]
        quantiles = " ".join(f"{q:6.3f}" for q in np.quantile(ratio, [0.05, 0.5, 0.95]))
        rest = own & clean
        worst = f"{np.quantile(said[rest] / middle[rest], 0.9):.4f}" if rest.any() else "-"
        known = own & fair & np.isfinite(examples.correlated)
        right = (correlated[known] > 0.5) == examples.correlated[known]
        print(f"{kind:20} {own.sum():6} {quantiles} {worst:>10}   kind right {right.mean():.2f}")
    off = np.abs(np.log(np.maximum(said[fair] / examples.levels[fair], 1e-3)))
    print("expected error against the median one, by quarters of the expectation:")
    for some in np.array_split(np.argsort(expected[fair]), 4):
        print(f"  {expected[fair][some].mean():.3f} {np.median(off[some]):.3f}")


def read_cloud(network: Network, examples: Examples, row: int) -> tuple[float, float, float]:
    reach = examples.reaches[row].astype(np.float64)
    weights = np.ones(len(reach))
    reading = network.read(examples.descriptions[row], reach, weights)
    return reading.level(weights), reading.expected_error, reading.correlated


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="fit to a part, test on the rest")
    parser.add_argument("--write", action="store_true", help="fit to all, write the file")
    arguments = parser.parse_args()
    if not (arguments.check or arguments.write):
        parser.error("say --check, --write, or both")
    examples = load_examples(arguments.file)
    if arguments.check:
        unseen = examples.sources % 5 == 0
        network = network_from(fit(part_of(examples, np.flatnonzero(~unseen))))
        report(network, part_of(examples, np.flatnonzero(unseen)))
    if arguments.write:
        COEFFICIENTS.write_text(as_text(fit(examples), examples), "utf-8")
        print(f"wrote {COEFFICIENTS.relative_to(ROOT)}, {COEFFICIENTS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
