"""Points that occur several times, once."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray


def distinct(points: FloatArray) -> tuple[FloatArray, IntArray]:
    """The different points (U, 3) of a cloud (M, 3), and for each point its place there (M,).

    The first of equal points counts, and the order is kept.

    >>> points, place = distinct(np.array([[1.0, 0, 0], [0, 0, 0], [1, 0, 0]]))
    >>> points.tolist(), place.tolist()
    ([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [0, 1, 0])
    """
    order = np.lexsort(points.T)
    ordered = points[order]
    is_new = np.ones(len(points), dtype=bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    if is_new.all():
        return points.copy(), np.arange(len(points))
    group = np.empty(len(points), dtype=np.int64)
    group[order] = np.cumsum(is_new) - 1
    first = np.sort(order[is_new])  # lexsort is stable: the first of a group has the lowest row
    rank = np.empty(len(first), dtype=np.int64)
    rank[group[first]] = np.arange(len(first))
    return points[first], rank[group]
