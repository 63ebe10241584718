"""All scanners by name: `SCANNERS[name](surface, count, rng)` takes about `count` points.

Here are those that put points onto a surface, of which a virtual scanner would have seen each;
`pdflow.scenes.rays` has those that cast rays, with all that hides behind something left out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.frame import unit_sphere
from pdflow.scenes.fields import frame_of, log_uniform, random_direction, unit
from pdflow.scenes.rays import depth_camera, line_scanner, rotating_head
from pdflow.scenes.scan import Scan, scan_of
from pdflow.scenes.surface import Surface, face_normals

Generator = np.random.Generator
Scanner = Callable[[Surface, int, Generator], Scan]

LARGEST_DENSITY_RATIO = 10.0
"""How much denser a fading scan is on one side than on the other, at most."""

HOLE_SHARES = (0.05, 0.25)
"""Smallest and largest part of the points that holes take away."""


def even(surface: Surface, count: int, rng: Generator) -> Scan:
    """Points at even distances."""
    return _seen(surface, *_sampled(surface, count, "even", rng), rng)


def random(surface: Surface, count: int, rng: Generator) -> Scan:
    """Independent points, equally dense everywhere."""
    return _seen(surface, *_sampled(surface, count, "uniform", rng), rng)


def fading(surface: Surface, count: int, rng: Generator, ratio: float | None = None) -> Scan:
    """Points whose density falls across the object, by up to 10 to 1.

    ratio  density at one end over that at the other, along a random direction
    """
    ratio = log_uniform(rng, 2, LARGEST_DENSITY_RATIO) if ratio is None else ratio
    method = str(rng.choice(["even", "uniform"]))
    # The dense end gets at most ratio ln(ratio) / (ratio - 1) < 3 times the mean.
    points, faces = _sampled(surface, 3 * count, method, rng)
    height = points @ random_direction(rng)
    height = (height - height.min()) / max(float(np.ptp(height)), 1e-12)
    density = ratio**-height
    # Taken whenever the sum of densities passes a whole number: no repeats, and `count` in all.
    total = np.cumsum(density) * (count / density.sum()) + rng.random()
    kept = np.flatnonzero(np.diff(np.floor(total), prepend=0.0) > 0)
    return _seen(surface, points[kept], faces[kept], rng)


def strokes(surface: Surface, count: int, rng: Generator) -> Scan:
    """Points in short straight segments, close together along each of them."""
    from pdflow.geometry.triangles import closest_on_mesh

    length = int(rng.integers(5, 13))
    starts, faces = _sampled(surface, -(-count // length), "uniform", rng)
    step = np.sqrt(surface.mesh.areas.sum() / count) / rng.uniform(2, 5)
    normals = face_normals(surface.mesh)[faces]
    along = random_direction(rng)
    along = np.stack([frame_of(normal)[0] for normal in normals]) if rng.random() < 0.5 else along
    tangents = along - (along * normals).sum(-1, keepdims=True) * normals
    tangents /= np.maximum(np.linalg.norm(tangents, axis=1, keepdims=True), 1e-9)
    places = step * (np.arange(length) - (length - 1) / 2)
    points = (starts[:, None] + places[:, None] * tangents[:, None]).reshape(-1, 3)[:count]
    _, faces, points = closest_on_mesh(points, surface.mesh)
    return _seen(surface, points, faces, rng)


def with_holes(scanner: Scanner) -> Scanner:
    """A scanner that misses a few round places of random size."""

    def holed(surface: Surface, count: int, rng: Generator) -> Scan:
        share = rng.uniform(*HOLE_SHARES)
        scan = scanner(surface, round(count / (1 - share)), rng)
        centers = scan.points[rng.integers(len(scan), size=rng.integers(1, 6))]
        sizes = rng.uniform(0.5, 2, len(centers))
        offsets = scan.points[:, None] - centers
        nearness = (np.linalg.norm(offsets, axis=2) / sizes).min(axis=1)
        return scan[np.sort(np.argsort(nearness)[round(share * len(scan)) :])]

    return holed


def _sampled(
    surface: Surface, count: int, method: str, rng: Generator
) -> tuple[FloatArray, IntArray]:
    from pdflow.geometry.sampling import sample_mesh

    return sample_mesh(surface.mesh, count, method, int(rng.integers(2**31)))


def _seen(surface: Surface, points: FloatArray, faces: IntArray, rng: Generator) -> Scan:
    """The scan of sampled points: each is seen by one of the two stations that face it best."""
    sphere = unit_sphere(surface.mesh.vertices)
    if len(surface.stations):
        above = sphere.center + sphere.scale * np.array([0, 0, rng.uniform(1, 3)])
        stations = np.concatenate([surface.stations, above[None]])
    else:
        axis = random_direction(rng)
        axes = np.stack([axis, *frame_of(axis, rng.uniform(0, np.pi))])
        stations = sphere.center + sphere.scale * rng.uniform(1.8, 4) * np.concatenate(
            [axes, -axes]
        )
    normals = face_normals(surface.mesh)[faces]
    cosines = np.abs(np.einsum("mqk,mk->mq", unit(points[:, None] - stations), normals))
    best = np.argsort(-cosines, axis=1)[:, :2]
    scans = best[np.arange(len(points)), rng.integers(2, size=len(points))]
    return scan_of(surface, points, faces, stations[scans], scans)


SCANNERS: dict[str, Scanner] = {
    "even": even,
    "random": random,
    "fading": fading,
    "strokes": strokes,
    "even-holes": with_holes(even),
    "line-scanner": line_scanner,
    "rotating-head": rotating_head,
    "depth-camera": depth_camera,
    "depth-camera-holes": with_holes(depth_camera),
}
