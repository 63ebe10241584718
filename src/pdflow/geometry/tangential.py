"""Limit motion: along the surface to what noise explains, and in total."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.normals import fit_planes
from pdflow.parallel import fill_rows

_POINTS_IN_MEMORY = 2**15

PROBES = 4096
"""Points whose motion is measured."""

AVERAGED = 64, 256
"""Nearest probes to average: this many with full weight, and this many in all."""

BROAD = 0.1
"""Nearby points show a plane if their breadth (`fit_planes`) is at least this."""

EXPLAINED = (0.88, 1.0)
"""Motion along the surface over motion across it (root mean squares): noise explains all of it up
to the first number, and none from the second on. Our network moves the points of evenly sampled
clouds at most 0.89 times as far along the surface as across it at any noise, and those of
simulated LiDAR scans at least 1.05 times (`benchmarks/accuracy/bench_tangential.py`)."""


def limit_tangential_motion(
    noisy: FloatArray,
    search: NeighborSearch,
    probing: NDArray[np.bool_] | None = None,
    wanted: NDArray[np.bool_] | None = None,
) -> FloatArray:
    """Denoised points (M, 3) without the tangential motion that noise cannot explain.

    noisy    (M, 3) points before denoising
    search   of the points after it, row by row
    probing  (M,) whose motion is measured; None for about PROBES of them
    wanted   (M,) whose motion is limited; None for all

    Networks learn from evenly sampled surfaces. Where a scanner drew lines or sampled at random,
    they also spread points evenly. That removes no noise and moves points away from where they
    were measured. What noise explains is decided around each point.
    """
    moved = search.points
    if probing is None or not probing.any():
        probing = np.arange(len(moved)) % max(1, len(moved) // PROBES) == 0
    probes = search if probing.all() else NeighborSearch(moved[probing])
    unexplained = _unexplained(noisy[probing], probes, search)
    if not unexplained.any():
        return moved
    share = np.zeros(len(moved))
    asked = slice(None) if wanted is None else wanted
    share[asked] = unexplained[probes.knn(moved[asked], 1)[1][:, 0]]
    turns, limited = search.turns(moved), np.array(moved)
    turns = turns[share[turns] > 0]
    for first in range(0, len(turns), _POINTS_IN_MEMORY):
        rows = turns[first : first + _POINTS_IN_MEMORY]
        limited[rows] -= share[rows, None] * _tangential(noisy[rows], moved[rows], search)
    return limited


def _unexplained(noisy: FloatArray, probes: NeighborSearch, search: NeighborSearch) -> FloatArray:
    """(Q,): share, 0 to 1, of the tangential motion around probes (Q, 3) that is not noise."""
    moved = probes.points
    along = _tangential(noisy, moved, search)
    sq_along = (along**2).sum(1)
    sq_across = ((moved - noisy - along) ** 2).sum(1)
    few, many = (min(count, len(moved)) for count in AVERAGED)
    low, high = EXPLAINED
    tiny = np.finfo(float).tiny

    def average(sq_distances: FloatArray, near: IntArray) -> FloatArray:
        # Beyond the first few, weights fall with the fourth power of the distance, so that separate
        # components do not influence each other.
        sq_reach = np.maximum(sq_distances[:, few - 1, None], tiny)
        weights = (sq_reach / np.maximum(sq_distances, sq_reach)) ** 2
        along, across = ((weights * sq[near]).sum(1) for sq in (sq_along, sq_across))
        ratio = np.sqrt(along / np.maximum(across, tiny))
        return np.asarray(np.clip((ratio - low) / (high - low), 0, 1))

    return probes.reduce_knn(many, average)


def _tangential(noisy: FloatArray, moved: FloatArray, search: NeighborSearch) -> FloatArray:
    """The part (Q, 3) of a motion that lies in the surface where it ends.

    It is zero where nearby points lie on a line: nothing shows the surface there.
    """
    normals, breadths = fit_planes(search, moved)

    def project(part: slice) -> FloatArray:
        shift, normal = moved[part] - noisy[part], normals[part]
        along = shift - (shift * normal).sum(1, keepdims=True) * normal
        return np.where(breadths[part, None] < BROAD, 0.0, along)

    return fill_rows(np.empty_like(moved), project)


def limit_motion(
    before: FloatArray, after: FloatArray, longest: FloatArray
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Points (M, 3) between `before` and `after`, at most `longest` (M,) from `before`.

    Also returns which points (M,) were stopped.

    >>> limit_motion(np.zeros((2, 3)), np.array([[3.0, 0, 0], [0, 1, 0]]), np.array([2.0, 2.0]))
    (array([[2., 0., 0.],
           [0., 1., 0.]]), array([ True, False]))
    """
    lengths = fill_rows(
        np.empty(len(after)), lambda part: np.linalg.norm(after[part] - before[part], axis=1)
    )
    far = lengths > longest
    limited = np.array(after)
    shift = after[far] - before[far]
    limited[far] = before[far] + shift * (longest[far] / lengths[far])[:, None]
    return limited, far
