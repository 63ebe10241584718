"""Clumps: how many points hang together around each point of a cloud."""

from __future__ import annotations

import numpy as np

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.neighbors import NeighborSearch

NEIGHBOURS = 8
"""Nearest points that a point may be linked to."""

SPACING_OF = 4
"""The distance to this neighbour is the spacing of points around a point."""

LINK = 1.6
"""Two points hang together if they are closer than this many times the spacing at both."""


def clump_sizes(search: NeighborSearch) -> IntArray:
    """(M,): how many points are linked, directly or by others, to each point; itself counts.

    On a surface that is nearly all points of it, in a clump of outliers its few.
    """
    count = min(NEIGHBOURS + 1, len(search))
    sq_distances, rows = search.knn(search.points, count)
    sq_links = LINK**2 * sq_distances[:, min(SPACING_OF, count - 1)]
    sizes = np.empty(len(search), np.int64)
    _fill_sizes(sq_distances, rows, sq_links, sizes)
    return sizes


@compiled
def _fill_sizes(
    sq_distances: FloatArray, rows: IntArray, sq_links: FloatArray, sizes: IntArray
) -> None:
    """Union-find: every point names a point of lower or equal row in its clump."""
    parents = np.arange(len(rows))
    for row in range(len(rows)):
        for k in range(1, rows.shape[1]):
            other = rows[row, k]
            if sq_distances[row, k] > min(sq_links[row], sq_links[other]):
                continue
            a, b = _root(parents, row), _root(parents, other)
            parents[max(a, b)] = min(a, b)
    counts = np.zeros(len(rows), np.int64)
    for row in range(len(rows)):
        counts[_root(parents, row)] += 1
    for row in range(len(rows)):
        sizes[row] = counts[_root(parents, row)]


@compiled
def _root(parents: IntArray, row: int) -> int:
    while parents[row] != row:
        parents[row] = parents[parents[row]]
        row = parents[row]
    return row
