"""Uniformity: how evenly points cover a surface, in disks of several sizes.

Seeds are uniformly distributed random points of the surface. Around each lies a disk whose area is
a fraction p of the whole surface, r = sqrt(p A / pi). With n of the M points in a disk, its score
is coverage times clutter (PU-GAN, Li et al. 2019):

    coverage = (n - p M)^2 / (p M)
    clutter  = mean of (d - h)^2 / h over its points, with d the distance to the nearest other
               point of the disk and h = sqrt(2 pi r^2 / (sqrt(3) n)), the spacing that n points
               have in a hexagonal grid

Disks with fewer than 5 points are left out; the others are averaged. Points are projected onto the
mesh first.

Frame: the mesh's unit sphere. Scores have the unit of a length, so the frame matters.

Paper: its supplement describes balls of radius sqrt(p) around farthest-point seeds, but its figures
come from geodesic disks around random seeds, as here. There, the mesh keeps its own size (radius
0.84 to 1.10 on PUSet), and seeds are denser near the centre of their triangle. Its table prints ten
times the sum over 20 shapes, so its 0.33 is a mean of 1.65e-3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdflow.compiled import compiled
from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.neighbors import knn
from pdflow.geometry.sampling import sample_mesh
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.mesh import TriangleMesh
from pdflow.metrics.geodesic import locate, surface_graph
from pdflow.metrics.inputs import as_points, frame_of_mesh, mesh_in
from pdflow.metrics.windows import LocatedPoints, Progress, SurfaceGraph, spread
from pdflow.parallel import run_in_threads

FRACTIONS = (0.004, 0.006, 0.008, 0.010, 0.012)
"""Disk areas, as fractions of the surface, of the paper's table."""

DISKS = 1000
FEWEST_POINTS = 5
_NEIGHBOURS = 12
_SKIPPED = -1.0


def uniformity(
    pred: Any,
    mesh: TriangleMesh,
    fractions: Sequence[float] = FRACTIONS,
    *,
    disks: int = DISKS,
    seed: int = 0,
    geodesic: bool = True,
) -> dict[float, float]:
    """Uniformity in disks of several sizes: fraction p -> score, lower is better.

    pred       (M, 3)
    fractions  areas of the disks, as fractions of the surface
    disks      number of random seeds
    seed       of the random numbers: same seed, same disks
    geodesic   True: disks along the surface, as in the published tables; False: Euclidean balls
               of the same seeds and radii, which is faster. On thin or folded shapes a ball also
               holds points of a nearby sheet of the surface

    Frame: the mesh's unit sphere. Distances along the mesh are exact; on an icosphere of 5120
    faces they differ from those on the true sphere by less than 0.1 %, because the mesh does.
    """
    points = as_points(pred, "The prediction")
    shares = np.asarray(fractions, dtype=np.float64)
    if disks < 1 or not ((shares > 0) & (shares < 1)).all():
        raise PdflowError("Uniformity needs at least one disk, and fractions between 0 and 1.")
    frame = frame_of_mesh(mesh)
    graph, mesh = surface_graph(mesh_in(frame, mesh))
    _, faces, projected = closest_on_mesh(frame.apply(points), mesh)
    sources, source_faces = sample_mesh(mesh, disks, method="uniform", seed=seed)
    radii = np.sqrt(shares * mesh.areas.sum() / np.pi)
    targets = locate(projected, faces, len(mesh.faces))
    scores = np.empty((disks, len(shares)))
    run_in_threads(
        _score_disks, disks, graph, sources, source_faces, targets,
        knn(projected, projected, min(_NEIGHBOURS, len(projected)))[1],
        shares, radii, geodesic, scores, grain=8,
    )  # fmt: skip
    valid = scores != _SKIPPED
    if not valid.any(0).all():
        smallest = shares[~valid.any(0)].max()
        raise PdflowError(
            f"No disk of {smallest:.1%} of the surface holds {FEWEST_POINTS} of the "
            f"{len(points)} points: the cloud is too sparse for uniformity."
        )
    means = np.where(valid, scores, 0.0).sum(0) / valid.sum(0)
    return {float(p): float(mean) for p, mean in zip(fractions, means, strict=True)}


@compiled
def _score_disks(
    start: int,
    stop: int,
    graph: SurfaceGraph,
    sources: FloatArray,
    source_faces: IntArray,
    targets: LocatedPoints,
    neighbours: IntArray,
    fractions: FloatArray,
    radii: FloatArray,
    geodesic: bool,
    scores: FloatArray,
) -> None:
    points = targets.points
    reach = float(radii.max())
    distances = np.full(len(points), np.inf)
    touched = np.empty(len(points), np.int64)
    progress = Progress(reach, np.empty(len(graph.vertices)), distances, touched)
    for disk in range(start, stop):
        if geodesic:
            progress.vertex_distances[:] = np.inf
            count = spread(graph, sources, disk, source_faces[disk], targets, progress)
        else:
            count = 0
            for row in range(len(points)):
                distance = np.sqrt(_sq_distance(points, row, sources, disk))
                if distance <= reach:
                    distances[row], touched[count] = distance, row
                    count += 1
        for j in range(len(radii)):
            inside = 0
            for i in range(count):
                inside += distances[touched[i]] <= radii[j]
            scores[disk, j] = _SKIPPED
            if inside >= FEWEST_POINTS:
                expected = fractions[j] * len(points)
                coverage = (inside - expected) ** 2 / expected
                spacing = np.sqrt(2 * np.pi * radii[j] ** 2 / (np.sqrt(3.0) * inside))
                clutter = 0.0
                for i in range(count):
                    if distances[touched[i]] <= radii[j]:
                        nearest = _nearest_inside(
                            points, touched[i], neighbours, distances, radii[j], touched[:count]
                        )
                        clutter += (nearest - spacing) ** 2 / spacing
                scores[disk, j] = coverage * clutter / inside
        distances[touched[:count]] = np.inf


@compiled
def _nearest_inside(
    points: FloatArray,
    row: int,
    neighbours: IntArray,
    distances: FloatArray,
    radius: float,
    candidates: IntArray,
) -> float:
    """Distance from a point of a disk to the nearest other one in it.

    neighbours  (M, K) rows nearest to every point, in order; nearly always one of them is inside
    candidates  rows to search if none is
    """
    for k in range(neighbours.shape[1]):
        other = neighbours[row, k]
        if other != row and distances[other] <= radius:
            return float(np.sqrt(_sq_distance(points, row, points, other)))
    sq_nearest = np.inf
    for other in candidates:
        if other != row and distances[other] <= radius:
            sq_nearest = min(sq_nearest, _sq_distance(points, row, points, other))
    return float(np.sqrt(sq_nearest))


@compiled
def _sq_distance(a: FloatArray, i: int, b: FloatArray, j: int) -> float:
    x, y, z = a[i, 0] - b[j, 0], a[i, 1] - b[j, 1], a[i, 2] - b[j, 2]
    return float(x * x + y * y + z * z)
