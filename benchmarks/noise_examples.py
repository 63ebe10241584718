"""Noisy clouds with known truth, which the network of the noise estimate is fitted to.

    python benchmarks/noise_examples.py FILE [--data DIR]

Four sources, none of which holds anything that tests use:

    shapes  the 40 training shapes of PUSet (DIR holds punet_train.npz): squashed, split into two
            parallel sheets, thinned evenly and unevenly, with outliers, with noise that is not
            Gaussian, and with noise that is correlated
    scans   `pdflow.scenes.training_scan`, any surface and scanner, with any noise
    kinds   `pdflow.scenes.make_case`, each kind of case without outliers
    simple  spheres, planes, boxes, tori and lines of 30 to 12,000 points; some of them noisy in a
            part only
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pdflow.geometry import knn, unit_sphere
from pdflow.geometry.normals import fit_normals
from pdflow.noise.neighborhoods import describe
from pdflow.parallel import available_cores
from pdflow.scenes.cases import KINDS, make_case, training_scan
from pdflow.scenes.errors import Measured, _correlated, add_errors, add_outliers, mix_pixels
from pdflow.scenes.fields import unit
from pdflow.scenes.scan import Scan

ROOT = Path(__file__).resolve().parents[1]
SEED = 0
RESOLUTIONS = (10_000, 10_000, 10_000, 10_000, 50_000)
QUERIES = 200
"""Query points in each cloud."""

SHAPE_CLOUDS, SHAPE_SCANS = 14, 5
"""Clouds of each shape with independent noise, and with any kind of noise."""

SCANS, SCAN_CLOUDS = 501, 3
"""Training scans, and noisy clouds of each."""

KIND_CLOUDS = 48
"""Cases of each kind."""

SIMPLE_CLOUDS = 600
"""Clouds of simple shapes."""

NOISE_SHARES = {
    "independent": 0.3,
    "ray": 0.1,
    "range": 0.1,
    "quantised": 0.1,
    "correlated": 0.25,
    "registration": 0.15,
}
"""How often scans have each kind of noise."""

LENGTHS = (0.7, 5.5)
"""Shortest and longest correlation in spacings."""

CORRELATED_FROM = 1.7
"""Spacings from which noise counts as correlated; nobody can tell shorter from independent."""


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
    with ProcessPoolExecutor(available_cores()) as pool:
        jobs = [
            *pool.map(partial(shape_examples, pack), range(len(shape_names(pack)))),
            *pool.map(scan_examples, range(SCANS), chunksize=8),
            *pool.map(kind_examples, [k for k in KINDS if "outliers" not in k]),
            simple_examples(),
        ]
    np.savez(arguments.file, **joined(jobs)._asdict())


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


# Shapes of PUSet


@cache
def load_pack(pack: Path) -> dict[str, np.ndarray]:
    with np.load(pack) as arrays:
        return dict(arrays)


def shape_names(pack: Path) -> list[str]:
    return sorted({key.split("/")[2] for key in load_pack(pack)})


def clean_points(pack: Path, resolution: int, name: str) -> np.ndarray:
    """Clouds are stored as uint16 between the two numbers of their range."""
    key = f"clean/{resolution}/{name}"
    low, high = load_pack(pack)[f"{key}/range"]
    return load_pack(pack)[key].astype(np.float64) / 65535 * (high - low) + low


def shape_examples(pack: Path, shape: int) -> Examples:
    name = shape_names(pack)[shape]
    clouds = []
    for number in range(SHAPE_CLOUDS + SHAPE_SCANS):
        rng = np.random.default_rng([SEED, 1, shape, number])
        points = varied(clean_points(pack, int(rng.choice(RESOLUTIONS)), name), rng)
        if number >= SHAPE_CLOUDS:
            noisy, correlated, kind = with_any_noise(as_scan(points, rng), rng)
            clouds.append(
                described(noisy.points, noisy.sigma, correlated, shape, f"shape {kind}", rng)
            )
            continue
        sigma = random_sigma(points, rng)
        noisy = points + sigma * random_offsets(points.shape, rng)
        if rng.random() < 0.15:
            scatter(noisy, rng)
        clouds.append(described(noisy, np.full(len(noisy), sigma), 0.0, shape, "shape", rng))
    return joined(clouds)


def varied(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Squashed, split into sheets, thinned: each in some of the cases."""
    if rng.random() < 0.5:
        points = squashed(points, rng)
    if rng.random() < 0.2:
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
    sq_distances = knn(points, points, 16)[0]
    spacing = np.sqrt(np.pi / 16 * np.median(sq_distances[:, -1]))
    gap = spacing * np.exp(rng.uniform(np.log(0.5), np.log(4)))
    side = rng.choice([-0.5, 0.5], len(points))
    return points + (gap * side)[:, None] * fit_normals(points, points)


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


def as_scan(points: np.ndarray, rng: np.random.Generator) -> Scan:
    """A scan of points (M, 3), each seen from one of the two stations that face it best."""
    sphere = unit_sphere(points)
    stations = sphere.center + sphere.scale * rng.uniform(2, 4) * unit(rng.standard_normal((6, 3)))
    normals = fit_normals(points, points)
    rays = unit(points[:, None] - stations)
    best = np.argsort(-np.abs(np.einsum("mqk,mk->mq", rays, normals)), axis=1)[:, :2]
    scans = best[np.arange(len(points)), rng.integers(2, size=len(points))]
    offsets = points - stations[scans]
    rays = unit(offsets)
    return Scan(
        points, rays, np.linalg.norm(offsets, axis=1), np.abs((rays * normals).sum(1)),
        np.full((len(points), 2), np.nan), scans, normals, np.zeros(len(points), np.int64), None,
    )  # fmt: skip


# Scans of scenes


def with_any_noise(scan: Scan, rng: np.random.Generator) -> tuple[Measured, float, str]:
    """The scan with noise, whether it is correlated, and its kind."""
    kind = str(rng.choice(list(NOISE_SHARES), p=list(NOISE_SHARES.values())))
    sigma = random_sigma(scan.points, rng)
    if rng.random() < 0.3:  # as small as it may be in places of many metres
        sigma = scan.spacing * np.exp(rng.uniform(np.log(0.02), np.log(2)))
    if kind == "correlated":
        length = rng.uniform(*LENGTHS)
        offsets, effective = _correlated(scan, sigma, rng, length)
        measured = Measured(scan.points + offsets, effective, np.zeros(len(scan), bool))
        return measured, 1.0 if length >= CORRELATED_FROM else np.nan, kind
    return add_errors(scan, kind, sigma, rng), float(kind == "registration"), kind


def scan_examples(seed: int) -> Examples:
    clouds = []
    scan = training_scan(seed, (2000, 12_000))
    for number in range(SCAN_CLOUDS):
        rng = np.random.default_rng([SEED, 2, seed, number])
        measured, correlated, kind = with_any_noise(scan, rng)
        if rng.random() < 0.2:
            measured = mix_pixels(scan, measured, rng.uniform(0.05, 0.3), rng)
        if rng.random() < 0.1:
            outliers = str(rng.choice(["uniform", "clumped", "rays"]))
            measured = add_outliers(scan, measured, outliers, rng.uniform(0, 0.03), rng)
        clouds.append(
            described(measured.points, measured.sigma, correlated, -1 - seed, f"scan {kind}", rng)
        )
    return joined(clouds)


def kind_examples(kind: str) -> Examples:
    clouds = []
    correlated = float(set(KINDS[kind].noises) <= {"correlated", "registration"})
    for seed in range(KIND_CLOUDS):
        rng = np.random.default_rng([SEED, 3, seed])
        count = round(np.exp(rng.uniform(np.log(2000), np.log(12_000))))
        level = 0.0 if rng.random() < 0.15 else np.exp(rng.uniform(np.log(0.0005), np.log(0.02)))
        case = make_case(kind, 10_000 + seed, count, level)
        clouds.append(described(case.noisy, case.sigma, correlated, -1 - seed, kind, rng))
    return joined(clouds)


# Simple shapes


def simple_examples() -> Examples:
    clouds = []
    for number in range(SIMPLE_CLOUDS):
        rng = np.random.default_rng([SEED, 4, number])
        count = round(np.exp(rng.uniform(np.log(30), np.log(12_000))))
        points = simple_shape(int(rng.integers(5)), count, rng)
        sigma = np.full(count, 0.0 if rng.random() < 0.3 else random_sigma(points, rng))
        if rng.random() < 0.3:
            across = points @ unit(rng.standard_normal(3))
            sigma[across < np.quantile(across, rng.uniform(0.1, 0.9))] *= rng.choice([0.0, 0.3])
        noisy = points + sigma[:, None] * rng.standard_normal((count, 3))
        clouds.append(described(noisy, sigma, 0.0, -1 - number, "simple", rng))
    return joined(clouds)


def simple_shape(kind: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random points of a sphere, a plane, a box, a torus or a line."""
    if kind == 0:
        return unit(rng.standard_normal((count, 3)))
    places = rng.uniform(-1, 1, (count, 3)) * [1, rng.uniform(0.3, 1), rng.uniform(0.05, 1)]
    if kind == 1:
        return places * [1, 1, 0]
    if kind == 2:
        face = rng.integers(3, size=count)
        places[np.arange(count), face] = np.sign(places[np.arange(count), face])
        return places
    if kind == 3:
        around, along = rng.uniform(0, 2 * np.pi, (2, count))
        thick = rng.uniform(0.1, 0.4)
        x, z = 1 + thick * np.cos(around), thick * np.sin(around)
        return np.stack([x * np.cos(along), x * np.sin(along), z], axis=1)
    return rng.random((count, 1)) * rng.standard_normal(3)


if __name__ == "__main__":
    main()
