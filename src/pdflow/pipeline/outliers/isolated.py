"""Isolated points: far from their neighbours by the standards of the cloud, beyond doubt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.neighbors import NeighborSearch

NEIGHBOURS = 12
CUT = 8.0
"""Robust deviations of the log distance to its neighbours beyond which a point is an outlier."""
_MANY = 65_536
REACH = 3.5
"""How far Gaussian noise takes one of very many points away from the others, in deviations."""


def find_isolated_points(search: NeighborSearch, limit: float | None = None) -> NDArray[np.bool_]:
    """(M,): whether a point is far from its neighbours by the standards of the cloud.

    limit  `outlier_limit` of a cloud that these points are a part of; by default their own

    The mean distance to the nearest neighbours is compared on a log scale with the median and
    median deviation of all points, so neither the outliers nor uneven density shift the limit.
    """
    distances = log_distances(search)
    return np.asarray(distances > (outlier_limit(distances) if limit is None else limit))


def log_distances(search: NeighborSearch) -> NDArray[np.float64]:
    """(M,): log of the mean distance of each point to its nearest neighbours.

    It is the same for all points if there are too few for a comparison.
    """
    if len(search) <= NEIGHBOURS + 1:
        return np.zeros(len(search))
    return search.reduce_knn(NEIGHBOURS + 1, lambda sq_distances, _: _log_means(sq_distances))


def outlier_limit(distances: NDArray[np.float64]) -> float:
    """The log distance beyond which a point is an outlier, from those of all points (M,)."""
    middle = _median(distances)
    spread = 1.4826 * _median(np.abs(distances - middle))
    return float(middle + CUT * max(spread, 0.05))


def _median(values: NDArray[np.float64]) -> float:
    """`np.median` of values (M,), which takes half as long where only those near it are sorted.

    Every 64th value shows which these are.
    """
    if len(values) >= _MANY:
        some = np.sort(values[::64])
        low, high = some[int(0.45 * len(some))], some[int(0.55 * len(some))]
        near = values[(values >= low) & (values <= high)]
        place = len(values) - 2 * np.count_nonzero(values < low)
        if 1 <= place < 2 * len(near):
            places = (place - 1) // 2, place // 2
            near.partition(places)
            return float((near[places[0]] + near[places[1]]) / 2)
    return float(np.median(values))


def within_noise(
    points: NDArray[np.float64], surface: NeighborSearch, sigma: float
) -> NDArray[np.bool_]:
    """(Q,): whether noise of deviation `sigma` explains that points (Q, 3) lie off a surface."""
    nearest = surface.knn(points, min(NEIGHBOURS, len(surface)))[1]
    distances = np.linalg.norm(points - surface.points[nearest].mean(axis=1), axis=1)
    return np.asarray(distances <= REACH * sigma)


def _log_means(sq_distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """(q,): log of the mean distance to all neighbours (q, k) but the point itself."""
    means = np.sqrt(sq_distances[:, 1:]).mean(axis=1)
    return np.asarray(np.log(np.maximum(means, np.finfo(float).tiny)))
