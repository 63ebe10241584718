"""Sample an exact number of points on a mesh, independently or evenly spread."""

from __future__ import annotations

import numpy as np

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, IntArray, generator
from pdflow.mesh import TriangleMesh

METHODS: tuple[str, ...] = ("even", "uniform")

_CANDIDATES_PER_POINT = 10


def sample_mesh(
    mesh: TriangleMesh, count: int, method: str = "even", seed: int = 0
) -> tuple[FloatArray, IntArray]:
    """Points (count, 3) on a mesh, and the face (count,) that each lies on.

    count   how many, exactly
    method  "uniform": independent, with a density that is constant over the surface;
            "even": like Poisson disks, by farthest point sampling of 10 times as many uniform
            points, in its order: the first n points are evenly spread as well
    seed    the same seed gives the same points

    Faces without area get no points. Distances are straight, not along the surface, so two sides
    of a sheet thinner than the spacing share their points.

    10K points on a torus: smallest and mean distance to the nearest other point, as a part of
    that in a hexagonal grid (which no sampling can exceed), the coefficient of variation of the
    area nearest to each point, and the time on one core of an AMD EPYC:

                                        smallest   mean   area   seconds
        uniform                             0.01   0.46   0.53     0.006
        even, from  5 times as many         0.64   0.77   0.19      0.03
        even, from 10 times as many         0.68   0.79   0.17      0.05
        even, from 20 times as many         0.70   0.81   0.17      0.10
        sample elimination (Yuksel, 2015)
              from  5 times as many         0.63   0.75   0.18      0.28

    >>> mesh = TriangleMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 1, 2]])
    >>> points, faces = sample_mesh(mesh, 5, method="uniform")
    >>> points.shape, faces.tolist()
    ((5, 3), [1, 1, 1, 1, 1])
    """
    if method not in METHODS:
        raise PdflowError(
            f"There is no sampling method {method!r}: choose one of {', '.join(METHODS)}."
        )
    if count < 1:
        raise PdflowError(f"Cannot sample {count} points from a mesh: ask for one or more.")
    rng = generator(seed)
    if method == "uniform":
        return _uniform(mesh, count, rng)

    from pdflow.geometry.farthest import farthest_point_sampling

    points, faces = _uniform(mesh, _CANDIDATES_PER_POINT * count, rng)
    chosen = farthest_point_sampling(points, count)
    return points[chosen], faces[chosen]


def _uniform(
    mesh: TriangleMesh, count: int, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    usable, areas_up_to = _areas_up_to(mesh)
    # side="right" also handles 0 and faces whose area vanishes in the sum; the minimum handles a
    # product that is rounded up to the total.
    drawn = np.searchsorted(areas_up_to, rng.random(count) * areas_up_to[-1], side="right")
    faces = usable[np.minimum(drawn, len(usable) - 1)]
    # The square root makes the density constant: strips near the first corner are shorter.
    u, v = np.sqrt(rng.random((count, 1))), rng.random((count, 1))
    a, b, c = mesh.vertices[mesh.faces[faces]].transpose(1, 0, 2)
    return a + u * (b - a) + u * v * (c - b), faces


def _areas_up_to(mesh: TriangleMesh) -> tuple[IntArray, FloatArray]:
    """The faces that have an area, and the sum of the areas up to each of them."""
    areas = mesh.areas
    if not np.isfinite(areas).all():
        face = int(np.argmin(np.isfinite(areas)))
        raise PdflowError(f"Face {face} of the mesh has NaN or infinite corners: repair it first.")
    usable = np.flatnonzero(areas > 0)
    if not len(usable):
        raise PdflowError(
            f"The mesh has no area ({len(mesh.faces)} faces): give one with a surface to sample."
        )
    return usable, np.cumsum(areas[usable])
