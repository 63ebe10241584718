"""Points with no surface near them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.neighbors import knn
from pdflow.parallel import run_in_threads

NEIGHBOURS = 12
CUT = 8.0
"""Robust deviations of the log distance to its neighbours beyond which a point is alone."""
REACH = 3.5
"""How far Gaussian noise brings one point of very many away from others, in its deviations."""


def find_outliers(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(M,): whether a point is far from its neighbours, by the standards of the cloud (M, 3).

    The mean distance to the nearest neighbours is compared on a log scale, by median and median
    deviation, so that neither the outliers nor uneven density decide what is usual.
    """
    if len(points) <= NEIGHBOURS + 1:
        return np.zeros(len(points), dtype=bool)
    distances = np.empty(len(points))
    run_in_threads(_fill_means, len(points), knn(points, points, NEIGHBOURS + 1)[0], distances)
    logs = np.log(np.maximum(distances, np.finfo(float).tiny))
    middle = np.median(logs)
    spread = 1.4826 * np.median(np.abs(logs - middle))
    return np.asarray(logs > middle + CUT * max(spread, 0.05))


def within_noise(
    lonely: NDArray[np.float64], surface: NDArray[np.float64], sigma: float
) -> NDArray[np.bool_]:
    """(L,): whether noise of deviation `sigma` explains that points (L, 3) lie apart.

    surface  (M, 3) the points that do not
    """
    nearest = knn(surface, lonely, min(NEIGHBOURS, len(surface)))[1]
    distances = np.linalg.norm(lonely - surface[nearest].mean(axis=1), axis=1)
    return np.asarray(distances <= REACH * sigma)


def _fill_means(
    start: int, stop: int, sq_distances: NDArray[np.float64], means: NDArray[np.float64]
) -> None:
    """Mean distances of the points `start` to `stop - 1` to all neighbours but themselves."""
    means[start:stop] = np.sqrt(sq_distances[start:stop, 1:]).mean(axis=1)
