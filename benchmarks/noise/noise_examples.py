"""Noisy clouds with known truth, which the network of the noise estimate is fitted to.

    python benchmarks/noise/noise_examples.py FILE [--data DIR]

Four sources, none of which holds anything that tests use:

    shapes  the 40 training shapes of PUSet (DIR holds punet_train.npz): squashed, split into two
            parallel sheets, thinned evenly and unevenly, with outliers, with noise that is not
            Gaussian, noisy in a part only, and with noise that is correlated
    scans   `pdflow.scenes.training_scan`, any surface and scanner, with any noise
    kinds   `pdflow.scenes.make_case`, each kind of case without outliers
    simple  spheres, planes, boxes, tori and lines of 30 to 12,000 points; some of them noisy in a
            part only

The second of two ROUNDS has mostly correlated noise, which is hardest to see.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from noisy_shapes import (
    as_scan,
    calm_part,
    clean_points,
    random_offsets,
    random_sigma,
    scatter,
    shape_names,
    simple_shape,
    varied,
)

from pdflow.geometry import unit_sphere
from pdflow.noise.neighborhoods import describe
from pdflow.parallel import available_cores
from pdflow.scenes.cases import KINDS, make_case, training_scan
from pdflow.scenes.errors import Measured, _correlated, add_errors, add_outliers, mix_pixels
from pdflow.scenes.scan import Scan

ROOT = Path(__file__).resolve().parents[2]
SEED = 0
RESOLUTIONS = (10_000, 10_000, 10_000, 10_000, 50_000)
QUERIES = 200
"""Query points in each cloud."""

FIRST_SCAN, SCAN_CLOUDS = 5000, 3
"""Seed of the first training scan, and noisy clouds of each."""

LENGTHS = (0.7, 5.5)
"""Shortest and longest correlation in spacings."""

CORRELATED_FROM = 1.7
"""Spacings from which noise counts as correlated; nobody can tell shorter from independent."""


@dataclass(frozen=True)
class Round:
    """How many clouds there are of each source.

    seed          of all random numbers
    shape_clouds  clouds of each shape with independent noise, and `shape_scans`, with any kind
    scans         numbers of training scans
    kinds         kinds of cases, `kind_clouds` of each, with seeds from `first_case` on
    simple_clouds clouds of simple shapes
    shares        how often scans have each kind of noise
    """

    seed: int
    shape_clouds: int
    shape_scans: int
    scans: range
    kinds: tuple[str, ...]
    kind_clouds: int
    first_case: int
    simple_clouds: int
    shares: dict[str, float]


ROUNDS = (
    Round(
        1, 56, 22, range(2400), tuple(k for k in KINDS if "outliers" not in k), 240, 20_000, 1200,
        {
            "independent": 0.3, "ray": 0.1, "range": 0.1, "quantised": 0.1, "correlated": 0.25,
            "registration": 0.15,
        },
    ),
    Round(
        2, 16, 24, range(20_000, 20_900),
        ("correlated", "depth-camera", "registration", "quantised"), 420, 50_000, 1500,
        {
            "independent": 0.1, "ray": 0.05, "range": 0.05, "quantised": 0.05, "correlated": 0.5,
            "registration": 0.25,
        },
    ),
)  # fmt: skip


class Examples(NamedTuple):
    """Descriptions of clouds and the truth about them.

    descriptions  (clouds, QUERIES, C)
    reaches       (clouds, QUERIES), in the unit of the cloud's radius
    sigmas        (clouds, QUERIES) effective sigma at each query, in the same unit
    levels        (clouds,) root mean square of the sigma of all points, outliers left out
    correlated    (clouds,) 1 if noise is correlated, 0 if independent, NaN if it has no kind
    sources       (clouds,) number of the shape, or -1 - the number of the seed
    kinds         (clouds,) name of the source and its kind
    """

    descriptions: np.ndarray
    reaches: np.ndarray
    sigmas: np.ndarray
    levels: np.ndarray
    correlated: np.ndarray
    sources: np.ndarray
    kinds: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    arguments = parser.parse_args()
    pack = arguments.data / "punet_train.npz"
    parts = []
    with ProcessPoolExecutor(available_cores()) as pool:
        for turn in ROUNDS:
            shapes = range(len(shape_names(pack)))
            parts += pool.map(partial(shape_examples, turn, pack), shapes)
            parts += pool.map(partial(scan_examples, turn), turn.scans, chunksize=8)
            parts += pool.map(partial(kind_examples, turn), turn.kinds)
            parts.append(simple_examples(turn))
    np.savez(arguments.file, **joined(parts)._asdict())


def joined(parts: list[Examples]) -> Examples:
    return Examples(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def load_examples(file: Path) -> Examples:
    with np.load(file) as arrays:
        return Examples(**arrays)


def described(
    points: np.ndarray,
    sigma: np.ndarray,
    correlated: float,
    source: int,
    kind: str,
    rng: np.random.Generator,
) -> Examples:
    """One cloud: some of `points` (M, 3), whose effective sigma (M,) is NaN for outliers."""
    points, first = np.unique(points, axis=0, return_index=True)
    sigma = sigma[first]
    radius = unit_sphere(points).scale
    level = float(np.sqrt(np.nanmean(sigma**2)))
    rows = rng.choice(len(points), QUERIES, replace=len(points) < QUERIES)
    seen = describe(points, points[rows])
    known = np.where(np.isnan(sigma[rows]), level, sigma[rows])
    return Examples(
        seen.description[None].astype(np.float32),
        (seen.reach[None] / radius).astype(np.float32),
        (known[None] / radius).astype(np.float32),
        np.array([level / radius], np.float32),
        np.array([correlated if level > 0 else np.nan], np.float32),
        np.array([source]),
        np.array([kind]),
    )


def shape_examples(turn: Round, pack: Path, shape: int) -> Examples:
    name = shape_names(pack)[shape]
    clouds = []
    for number in range(turn.shape_clouds + turn.shape_scans):
        rng = np.random.default_rng([turn.seed, 1, shape, number])
        points = varied(clean_points(pack, int(rng.choice(RESOLUTIONS)), name), rng)
        if number >= turn.shape_clouds:
            noisy, correlated, kind = with_any_noise(turn, as_scan(points, rng), rng)
            clouds.append(
                described(noisy.points, noisy.sigma, correlated, shape, f"shape {kind}", rng)
            )
            continue
        sigma, kind = np.full(len(points), random_sigma(points, rng)), "shape"
        if rng.random() < 0.15:
            calm_part(points, sigma, rng)
            kind = "shape part"
        noisy = points + sigma[:, None] * random_offsets(points.shape, rng)
        if rng.random() < 0.15:
            scatter(noisy, rng)
        clouds.append(described(noisy, sigma, 0.0, shape, kind, rng))
    return joined(clouds)


def with_any_noise(
    turn: Round, scan: Scan, rng: np.random.Generator
) -> tuple[Measured, float, str]:
    """The scan with noise, whether it is correlated, and its kind."""
    kind = str(rng.choice(list(turn.shares), p=list(turn.shares.values())))
    sigma = random_sigma(scan.points, rng)
    if rng.random() < 0.3:  # as small as it may be in places of many metres
        sigma = scan.spacing * np.exp(rng.uniform(np.log(0.02), np.log(2)))
    if kind == "correlated":
        length = rng.uniform(*LENGTHS)
        offsets, effective = _correlated(scan, sigma, rng, length)
        measured = Measured(scan.points + offsets, effective, np.zeros(len(scan), bool))
        return measured, 1.0 if length >= CORRELATED_FROM else np.nan, kind
    return add_errors(scan, kind, sigma, rng), float(kind == "registration"), kind


def scan_examples(turn: Round, seed: int) -> Examples:
    clouds = []
    scan = training_scan(FIRST_SCAN + seed, (2000, 12_000))
    for number in range(SCAN_CLOUDS):
        rng = np.random.default_rng([turn.seed, 2, seed, number])
        measured, correlated, kind = with_any_noise(turn, scan, rng)
        if rng.random() < 0.2:
            measured = mix_pixels(scan, measured, rng.uniform(0.05, 0.3), rng)
        if rng.random() < 0.1:
            outliers = str(rng.choice(["uniform", "clumped", "rays"]))
            measured = add_outliers(scan, measured, outliers, rng.uniform(0, 0.03), rng)
        clouds.append(
            described(measured.points, measured.sigma, correlated, -1 - seed, f"scan {kind}", rng)
        )
    return joined(clouds)


def kind_examples(turn: Round, kind: str) -> Examples:
    clouds = []
    correlated = float(set(KINDS[kind].noises) <= {"correlated", "registration"})
    for seed in range(turn.kind_clouds):
        rng = np.random.default_rng([turn.seed, 3, seed])
        count = round(np.exp(rng.uniform(np.log(2000), np.log(12_000))))
        level = 0.0 if rng.random() < 0.15 else np.exp(rng.uniform(np.log(0.0005), np.log(0.02)))
        case = make_case(kind, turn.first_case + seed, count, level)
        clouds.append(described(case.noisy, case.sigma, correlated, -1 - seed, kind, rng))
    return joined(clouds)


def simple_examples(turn: Round) -> Examples:
    clouds = []
    for number in range(turn.simple_clouds):
        rng = np.random.default_rng([turn.seed, 4, number])
        count = round(np.exp(rng.uniform(np.log(30), np.log(12_000))))
        points = simple_shape(int(rng.integers(5)), count, rng)
        sigma = np.full(count, 0.0 if rng.random() < 0.3 else random_sigma(points, rng))
        if rng.random() < 0.3:
            calm_part(points, sigma, rng)
        noisy = points + sigma[:, None] * rng.standard_normal((count, 3))
        clouds.append(described(noisy, sigma, 0.0, -1 - number, "simple", rng))
    return joined(clouds)


if __name__ == "__main__":
    main()
