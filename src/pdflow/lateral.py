"""Movement along a surface: how much of it noise explains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.neighbors import knn
from pdflow.geometry.normals import fit_planes

LOOKED_AT = 4096
"""Points whose movement is looked at."""

TOGETHER = 64, 256
"""How many nearest ones of them are taken together: to the full, and at all."""

BROAD = 0.1
"""Breadth of nearby points, squared over their squared length, from which on they show a plane."""

EXPLAINED = (0.88, 1.0)
"""Movement along the surface over movement across it (root mean squares) up to which noise
explains all of it, and from which on none. Our network moves the points of evenly sampled clouds
at most 0.89 times as far along the surface as across it, whatever their noise, and those of
simulated LiDAR scans at least 1.05 times (`benchmarks/bench_tangential.py`)."""


def without_evening(noisy: NDArray[np.float64], moved: NDArray[np.float64]) -> NDArray[np.float64]:
    """Denoised points (M, 3) without movement along the surface that noise cannot explain.

    noisy, moved  (M, 3) before and after, row by row

    Networks learn from evenly sampled surfaces. Where a scanner drew lines, or sampled at random,
    they also spread points evenly: no noise is removed by that, and points leave where they were
    measured. What noise explains is judged around each point.
    """
    some = slice(None, None, max(1, len(moved) // LOOKED_AT))
    unexplained = _unexplained(noisy[some], moved[some], moved)
    if not unexplained.any():
        return moved
    share = unexplained[knn(moved[some], moved, 1)[1][:, 0]]
    rows = np.flatnonzero(share)
    settled = np.array(moved)
    settled[rows] -= share[rows, None] * _along(noisy[rows], moved[rows], moved)
    return settled


def _unexplained(
    noisy: NDArray[np.float64], moved: NDArray[np.float64], surface: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(Q,): share, 0 to 1, of the movement along the surface around points (Q, 3) that noise does
    not explain."""
    along = _along(noisy, moved, surface)
    sq_along = (along**2).sum(1)
    sq_across = ((moved - noisy - along) ** 2).sum(1)
    few, many = (min(count, len(moved)) for count in TOGETHER)
    sq_distances, near = knn(moved, moved, many)
    tiny = np.finfo(float).tiny
    # Beyond the first few the weight falls with the fourth power, so that no island hears another.
    sq_reach = np.maximum(sq_distances[:, few - 1, None], tiny)
    weights = (sq_reach / np.maximum(sq_distances, sq_reach)) ** 2
    sq_along, sq_across = ((weights * part[near]).sum(1) for part in (sq_along, sq_across))
    ratio = np.sqrt(sq_along / np.maximum(sq_across, tiny))
    low, high = EXPLAINED
    return np.asarray(np.clip((ratio - low) / (high - low), 0, 1))


def _along(
    noisy: NDArray[np.float64], moved: NDArray[np.float64], surface: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The part (Q, 3) of a movement that lies in the surface (M, 3), where it ends.

    Where nearby points are on a line nobody knows where the surface is: there it is zero.
    """
    shift = moved - noisy
    normals, breadths = fit_planes(surface, moved)
    along = shift - (shift * normals).sum(1, keepdims=True) * normals
    return np.asarray(np.where(breadths[:, None] < BROAD, 0.0, along))
