"""Fit the network of the noise estimate to noised training shapes.

    python benchmarks/fit_noise_estimate.py [--data DIR] [--check] [--write]

--check  cross-validate: five fits, each tested on the eight shapes that it has not seen
--write  fit to all 40 shapes and write src/pdflow/noise/estimate.json

DIR holds punet_train.npz, the 40 training shapes of PUSet. The test shapes are not used. Every
shape is noised many times, at all levels that the estimate must distinguish, and augmented:
squashed, split into two parallel sheets, thinned evenly and unevenly, with outliers, with noise
that is not Gaussian. Takes about ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdflow.geometry import knn, unit_sphere
from pdflow.noise.estimate import (
    LOG_SPREADS,
    OFFSET,
    Network,
    describe,
    estimate_with,
    network_from,
)
from pdflow.parallel import available_cores
from pdflow.provenance import source_version

ROOT = Path(__file__).resolve().parents[1]
COEFFICIENTS = ROOT / "src/pdflow/noise/estimate.json"
SEED = 0
RESOLUTIONS = (10_000, 30_000, 50_000)
CLOUDS, QUERIES = 96, 250
"""Clouds made from each shape, and query points in each."""

LARGEST = 1.2
"""Noise above this many reaches is not distinguished: the estimate subsamples such clouds."""

JUDGED = 0.8
"""Only clouds whose noise is below this many reaches count in the loss of whole clouds."""

HIDDEN = (32, 32)
EPOCHS, CLOUDS_PER_STEP, RATE = 12, 16, 4e-3
CLOUD_WEIGHT = 200.0
"""Weight of the error of a whole cloud, relative to the likelihood of one query."""

FOLDS = 5
LEVELS = (0, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05)
CHECKED = [(resolution, level) for resolution in (10_000, 50_000) for level in LEVELS]


class Examples(NamedTuple):
    """What the network is fitted to, for one or several shapes.

    descriptions  (clouds, QUERIES, C)
    reaches       (clouds, QUERIES)
    sigmas        (clouds,)
    """

    descriptions: np.ndarray
    reaches: np.ndarray
    sigmas: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--check", action="store_true", help="cross-validate over shapes")
    parser.add_argument("--write", action="store_true", help="fit to all shapes, write the file")
    arguments = parser.parse_args()
    if not (arguments.check or arguments.write):
        parser.error("say --check, --write, or both")
    pack = arguments.data / "punet_train.npz"
    names = shape_names(pack)
    with ProcessPoolExecutor(available_cores()) as pool:
        examples = list(pool.map(partial(make_examples, pack), range(len(names))))
        if arguments.check:
            report(names, cross_validate(pack, examples, pool))
    if arguments.write:
        COEFFICIENTS.write_text(as_text(fit(examples), len(names)), "utf-8")
        print(f"wrote {COEFFICIENTS.relative_to(ROOT)}, {COEFFICIENTS.stat().st_size} bytes")


# Shapes and their noisy versions


@cache
def load(pack: Path) -> dict[str, np.ndarray]:
    with np.load(pack) as arrays:
        return dict(arrays)


def shape_names(pack: Path) -> list[str]:
    return sorted({key.split("/")[2] for key in load(pack)})


def clean_points(pack: Path, resolution: int, name: str) -> np.ndarray:
    """Clouds are stored as uint16 between the two numbers of their range."""
    key = f"clean/{resolution}/{name}"
    low, high = load(pack)[f"{key}/range"]
    return load(pack)[key].astype(np.float64) / 65535 * (high - low) + low


def make_examples(pack: Path, shape: int) -> Examples:
    """Noisy clouds of one shape, described at some of their points."""
    name = shape_names(pack)[shape]
    descriptions, reaches, sigmas = [], [], []
    for number in range(CLOUDS):
        rng = np.random.default_rng([SEED, 1, shape, number])
        points = varied(clean_points(pack, int(rng.choice(RESOLUTIONS)), name), rng)
        sigma = random_sigma(points, rng)
        noisy = points + sigma * random_offsets(points.shape, rng)
        if rng.random() < 0.15:
            scatter(noisy, rng)
        queries = noisy[rng.choice(len(noisy), QUERIES, replace=False)]
        seen = describe(noisy, queries)
        descriptions.append(seen.description.astype(np.float32))
        reaches.append(seen.reach.astype(np.float32))
        sigmas.append(sigma)
    return Examples(np.stack(descriptions), np.stack(reaches), np.array(sigmas, np.float32))


def varied(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Squashed, split into sheets, thinned: each in some of the cases."""
    if rng.random() < 0.5:
        points = squashed(points, rng)
    if rng.random() < 0.3:
        points = split_into_sheets(points, rng)
    if rng.random() < 0.2:
        along = points @ rng.standard_normal(3)
        along = (along - along.min()) / np.ptp(along)
        points = points[rng.random(len(points)) < np.exp(-along * rng.uniform(0, 3))]
    if rng.random() < 0.5:
        keep = int(np.exp(rng.uniform(np.log(300), np.log(len(points)))))
        points = points[rng.choice(len(points), keep, replace=False)]
    return points


def squashed(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Shrunk along one direction to 12 to 100 %: thinner parts and sharper edges."""
    direction = rng.standard_normal(3)
    if rng.random() < 0.5:
        direction = np.eye(3)[rng.integers(3)]
    direction /= np.linalg.norm(direction)
    factor = np.exp(rng.uniform(np.log(0.12), 0))
    return points - (1 - factor) * (points @ direction)[:, None] * direction


def split_into_sheets(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every point moved to one of two sides of the surface: two sheets, 0.5 to 4 spacings apart."""
    sq_distances, rows = knn(points, points, 16)
    around = points[rows] - points[rows].mean(axis=1, keepdims=True)
    normals = np.linalg.eigh(around.transpose(0, 2, 1) @ around)[1][:, :, 0]
    spacing = np.sqrt(np.pi / 16 * np.median(sq_distances[:, -1]))
    gap = spacing * np.exp(rng.uniform(np.log(0.5), np.log(4)))
    side = rng.choice([-0.5, 0.5], len(points))
    return points + (gap * side)[:, None] * normals


def random_sigma(points: np.ndarray, rng: np.random.Generator) -> float:
    """Zero, 0.1 to 6 % of the radius, or 0.03 to 5 times the spacing."""
    radius = unit_sphere(points).scale
    kind = rng.random()
    if kind < 0.08:
        return 0.0
    if kind < 0.6:
        return float(radius * np.exp(rng.uniform(np.log(0.001), np.log(0.06))))
    spacing = radius * 2.2 / np.sqrt(len(points))
    return float(min(0.1 * radius, spacing * np.exp(rng.uniform(np.log(0.03), np.log(5)))))


def random_offsets(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Offsets with standard deviation 1 per axis: Gaussian in most clouds, but not in all."""
    kind = rng.random()
    if kind < 0.1:
        return rng.laplace(scale=0.5**0.5, size=shape)
    offsets = rng.standard_normal(shape)
    if kind < 0.2:  # even in a ball
        offsets /= np.linalg.norm(offsets, axis=1, keepdims=True)
        offsets *= 5**0.5 * rng.random((len(offsets), 1)) ** (1 / 3)
    return offsets


def scatter(points: np.ndarray, rng: np.random.Generator) -> None:
    """Make up to 3 % of the points outliers, anywhere in the bounding box."""
    low, high = points.min(axis=0), points.max(axis=0)
    rows = rng.choice(len(points), int(len(points) * rng.uniform(0, 0.03)), replace=False)
    points[rows] = rng.uniform(low, high, (len(rows), 3))


# The fit


def fit(examples: list[Examples]) -> dict[str, Any]:
    """The network as a document, fitted to every query and, more so, to every cloud.

    For a query, the network predicts log(sigma / reach + OFFSET) and its spread (the likelihood of
    a Laplace distribution). Over a cloud, its errors, weighted by their spread, should cancel.
    """
    import torch
    from torch import nn

    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # small layers: a second thread costs more than it brings
    inputs = np.concatenate([e.descriptions for e in examples])
    reaches = np.concatenate([e.reaches for e in examples])
    ratios = np.concatenate([e.sigmas for e in examples])[:, None] / reaches
    mean, std = inputs.mean(axis=(0, 1)), inputs.std(axis=(0, 1)) + 1e-6
    x = torch.from_numpy((inputs - mean) / std).clamp(-5, 5)
    y = torch.from_numpy(np.log(np.minimum(ratios, LARGEST) + OFFSET))
    judged = torch.from_numpy(np.median(ratios, axis=1) < JUDGED).float()

    widths = (x.shape[-1], *HIDDEN, 2)
    linears = [nn.Linear(a, b) for a, b in pairwise(widths)]
    layers = [layer for linear in linears for layer in (linear, nn.SiLU())]
    network = nn.Sequential(*layers[:-1])
    steps = len(x) // CLOUDS_PER_STEP
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * steps)
    for _ in range(EPOCHS):
        for clouds in torch.randperm(len(x))[: steps * CLOUDS_PER_STEP].split(CLOUDS_PER_STEP):
            said, spread = network(x[clouds]).unbind(-1)
            spread = spread.clamp(*LOG_SPREADS)
            error = said - y[clouds]
            of_queries = (error.abs() * torch.exp(-spread) + spread).mean()
            of_clouds = (torch.softmax(-2 * spread, 1) * error).sum(1) * judged[clouds]
            of_clouds = nn.functional.huber_loss(of_clouds, torch.zeros_like(of_clouds), delta=0.1)
            optimizer.zero_grad()
            (of_queries + CLOUD_WEIGHT * of_clouds).backward()
            optimizer.step()
            schedule.step()
    fitted = [{"weights": rounded(one.weight), "bias": rounded(one.bias)} for one in linears]
    return {"mean": rounded(mean), "std": rounded(std), "layers": fitted}


def rounded(values: Any) -> Any:
    """Nested lists of numbers with four digits, which is all that can be measured."""
    numbers = np.asarray(values.detach() if hasattr(values, "detach") else values, np.float64)
    return np.vectorize(lambda number: float(f"{number:.4g}"))(numbers).tolist()


def as_text(document: dict[str, Any], shapes: int) -> str:
    about = {
        "made by": "benchmarks/fit_noise_estimate.py --write",
        "commit": source_version(),
        "seed": SEED,
        "data": f"{shapes} training shapes of PUSet, {CLOUDS} noisy clouds of each",
    }
    return json.dumps({"about": about, **document}, separators=(",", ":")) + "\n"


# The check


def cross_validate(pack: Path, examples: list[Examples], pool: ProcessPoolExecutor) -> np.ndarray:
    """Estimates (shapes, CHECKED) by networks fitted to other shapes."""
    turns = np.random.default_rng(SEED).permutation(len(examples))
    jobs = {}
    for fold in range(FOLDS):
        unseen = turns[fold::FOLDS]
        network = network_from(fit([e for i, e in enumerate(examples) if i not in unseen]))
        jobs |= {int(i): pool.submit(check_shape, pack, int(i), network) for i in unseen}
    return np.array([jobs[shape].result() for shape in range(len(examples))])


def check_shape(pack: Path, shape: int, network: Network) -> list[float]:
    """Estimates for one unseen shape, relative to its radius."""
    name = shape_names(pack)[shape]
    estimates = []
    for number, (resolution, level) in enumerate(CHECKED):
        clean = clean_points(pack, resolution, name)
        radius = unit_sphere(clean).scale
        rng = np.random.default_rng([SEED, 2, shape, number])
        noisy = clean + level * radius * rng.standard_normal(clean.shape)
        estimates.append(estimate_with(network, noisy).sigma / radius)
    return estimates


def report(names: list[str], estimates: np.ndarray) -> None:
    """Print hits and errors for every level, and the shapes that are off."""
    print(f"{len(names)} unseen shapes, commit {source_version()}, seed {SEED}")
    print("points  noise  within 20 %  mean |log error|   10 %   50 %   90 % of shapes: estimate")
    for (resolution, level), values in zip(CHECKED, estimates.T, strict=True):
        low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
        quantiles = f"{low:7.3%} {middle:7.3%} {high:7.3%}"
        if not level:
            print(f"{resolution:6} {level:6.2%} {'':30} {quantiles}")
            continue
        ratio = values / level
        off = {name: r for name, r in zip(names, ratio, strict=True) if abs(r - 1) > 0.2}
        hits = f"{len(names) - len(off):9}/{len(names)}"
        error = np.abs(np.log(np.maximum(ratio, 0.01))).mean()
        print(f"{resolution:6} {level:6.2%} {hits} {error:17.3f} {quantiles}")
        if off:
            print("       off:", ", ".join(f"{name} {r:.2f}" for name, r in off.items()))


if __name__ == "__main__":
    main()
