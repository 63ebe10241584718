"""Restraint: no point moves farther than its own noise explains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.neighbors import knn
from pdflow.noise.estimate import NoiseEstimate

MOST_SIGMAS = 5.0
"""Farthest that a point moves, in standard deviations of the noise around it. On held-out training
shapes with 1 to 3 % noise no point in ten thousand moves so far (`benchmarks/try_restraint.py`)."""


def longest_moves(
    noise: NoiseEstimate, points: NDArray[np.float64], max_move: float | None
) -> NDArray[np.float64]:
    """(M,): how far points (M, 3) may move in all passes together.

    max_move  a length that the caller chose for all points, or None: MOST_SIGMAS of the noise

    >>> longest_moves(NoiseEstimate(0.1, 0.1, 1.0, True), np.zeros((2, 3)), None)
    array([0.5, 0.5])
    """
    if max_move is not None:
        return np.full(len(points), float(max_move))
    return MOST_SIGMAS * noise_around(noise, points)


def noise_around(noise: NoiseEstimate, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """(M,): the noise at points (M, 3): that at the nearest query.

    `NoiseEstimate.at` asks many queries for each place, which takes too long for all points.
    """
    if not len(noise.queries):
        return np.full(len(points), noise.sigma)
    levels = noise.at(noise.queries)
    if (levels == noise.sigma).all():
        return np.full(len(points), noise.sigma)
    return np.asarray(levels[knn(noise.queries, points, 1)[1][:, 0]])
