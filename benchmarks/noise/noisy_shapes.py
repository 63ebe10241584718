"""Shapes of PUSet and simple ones, varied at random, and the size and offsets of their noise."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from pdflow.geometry import knn, unit_sphere
from pdflow.geometry.normals import fit_normals
from pdflow.scenes.fields import unit
from pdflow.scenes.scan import Scan


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


def calm_part(points: np.ndarray, sigma: np.ndarray, rng: np.random.Generator) -> None:
    """Take noise sigma (M,) away, all or most, on one side of a plane through points (M, 3)."""
    across = points @ unit(rng.standard_normal(3))
    sigma[across < np.quantile(across, rng.uniform(0.1, 0.9))] *= rng.choice([0.0, 0.3])


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
