"""Nearest neighbours and neighbours in a ball: exact, and the same on every machine.

scipy's cKDTree does not define the order of equally near points, takes time quadratic in the number
of duplicates, and jumps about in memory. Our own tree breaks ties by row, handles duplicates like
any points, and lies in memory in the order in which a search walks it. Queries are answered along
a space-filling curve, so that each finds in the cache what the last one used.

Self-queries of noisy sphere points on two cores, best of 2, in seconds; "sorted" is cKDTree on
points sorted by grid cell first:

    points  neighbours  cKDTree  sorted  ours
       50K          16     0.07    0.08  0.04
       50K          32     0.12    0.13  0.08
        1M           1     1.16    0.89  0.34
        1M          16     4.62    2.81  1.24
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdflow.compiled import compiled
from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, IntArray, finite_points
from pdflow.geometry.kdtree import (
    KdTree,
    build_tree,
    fold_up,
    keep_points,
    leaf_firsts,
    leaf_range,
    refit_tree,
    sq_distances_to,
)
from pdflow.geometry.morton import morton_keys
from pdflow.geometry.nearest import before, farthest_of, insert, select_nearest, sort_pairs
from pdflow.parallel import run_in_threads, stable_argsort

LEAF_SIZE = 32
"""Most points in a leaf of the tree; every leaf is at least half full."""

_NEIGHBORS_PER_THREAD = 32_768
"""For fewer neighbours in all, a second thread costs more time than it saves."""

_FEW_NEIGHBORS = 64
"""Up to so many neighbours are kept in a sorted list: it takes a quarter less time than a heap."""

_NEIGHBORS_IN_CACHE = 131_072


def knn(points: ArrayLike, queries: ArrayLike, k: int) -> tuple[FloatArray, IntArray]:
    """The `k` points nearest to each query.

    points   (M, 3), M >= k
    queries  (Q, 3)

    Returns squared distances (Q, k), ascending, and rows of `points` (Q, k); the lower row wins
    ties. A query that is one of the points finds itself, at distance 0.

    >>> sq_distances, rows = knn([[0, 0, 0], [3, 0, 0], [1, 0, 0]], [[0, 0, 0]], 2)
    >>> sq_distances.tolist(), rows.tolist()
    ([[0.0, 1.0]], [[0, 2]])
    """
    return NeighborSearch(points).knn(queries, k)


def ball_query(
    points: ArrayLike, queries: ArrayLike, radius: float, k: int
) -> tuple[IntArray, IntArray]:
    """The points within `radius` of each query, at most the `k` nearest.

    points   (M, 3), M > 0
    queries  (Q, 3)

    Returns rows of `points` (Q, k), nearest first, ties by row, and how many of them lie in the
    ball (Q,). The remaining places repeat the nearest point, so that every row can be gathered. If
    the ball is empty (count 0), that is the nearest point outside it.

    >>> rows, counts = ball_query([[0, 0, 0], [3, 0, 0], [1, 0, 0]], [[0, 0, 0]], 1.0, 3)
    >>> rows.tolist(), counts.tolist()
    ([[0, 2, 0]], [2])
    """
    return NeighborSearch(points).ball_query(queries, radius, k)


class NeighborSearch:
    """Search one cloud for neighbours many times: its tree is built once.

    points  (M, 3) the cloud

    Create one search per cloud and pass it to every stage that needs neighbours or farthest
    points. To query every point, pass `search.points` itself: the queries then follow the tree's
    order, which is faster.

    >>> search = NeighborSearch([[0, 0, 0], [3, 0, 0], [1, 0, 0]])
    >>> search.knn(search.points, 2)[1].tolist()
    [[0, 2], [1, 2], [2, 0]]
    >>> search.subset([True, True, False]).knn([[1, 0, 0]], 1)[1].tolist()
    [[0]]
    """

    def __init__(self, points: ArrayLike) -> None:
        self._given = points
        self.points = finite_points(points)
        self._tree = build_tree(self.points, LEAF_SIZE) if len(self.points) else None
        self._kept: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.points)

    @property
    def tree(self) -> KdTree:
        """The tree; in a subset, points that are left out lie at infinity."""
        if self._tree is None:
            raise PdflowError("A cloud without points has no neighbours: give at least one point.")
        return self._tree

    @property
    def kept(self) -> NDArray[np.bool_]:
        """(places,): whether each place of the tree holds one of `points`."""
        return np.ones(len(self.tree.order), dtype=bool) if self._kept is None else self._kept

    def subset(self, kept: ArrayLike) -> NeighborSearch:
        """The search among the points that a mask (M,) keeps; it shares the tree.

        Rows refer to the points that are kept.
        """
        mask = np.asarray(kept, dtype=bool)
        if mask.all():
            return self
        part = copy(self)
        part.points, part._tree, part._kept = keep_points(self.tree, self.points, self.kept, mask)
        part._given = part.points
        return part

    def moved(self, points: ArrayLike) -> NeighborSearch:
        """The search among the same points, row by row, at other places (M, 3).

        The leaves of the tree stay and their boxes are fitted anew, which takes far less time than
        a new tree. Answers are the same, and as fast if points moved by little.
        """
        if self._tree is None or self._kept is not None:
            return NeighborSearch(points)
        part = copy(self)
        part._given, part.points = points, finite_points(points)
        part._tree = refit_tree(self._tree, part.points)
        return part

    def knn(self, queries: ArrayLike, k: int) -> tuple[FloatArray, IntArray]:
        """Squared distances and rows (Q, k), like the function `knn`."""
        wanted = self._queries(queries)
        if self._tree is None or not 1 <= k <= len(self.points):
            count = len(self.points)
            raise PdflowError(
                f"Cannot find {k} neighbours among {count} points: ask for 1 to {count}."
            )
        return _search(self._tree, wanted, self.turns(wanted), k, np.inf)

    def ball_query(self, queries: ArrayLike, radius: float, k: int) -> tuple[IntArray, IntArray]:
        """Rows (Q, k) and counts (Q,), like the function `ball_query`."""
        wanted, tree, count = self._queries(queries), self._tree, len(self.points)
        if tree is None or k < 1:
            raise PdflowError(
                f"Cannot find {k} neighbours among {count} points: ask for one or more."
            )
        if not 0 <= radius < np.inf:
            raise PdflowError(
                f"A ball cannot have the radius {radius}: give a finite one from 0 on."
            )
        rows = np.full((len(wanted), k), count)
        found = min(k, count)
        turns = self.turns(wanted)
        rows[:, :found] = _search(tree, wanted, turns, found, float(radius) ** 2)[1]
        counts = np.count_nonzero(rows < count, axis=1)
        empty = turns[counts[turns] == 0]
        rows[empty, 0] = _search(tree, wanted, empty, 1, np.inf)[1][empty, 0]
        return np.where(rows < count, rows, rows[:, :1]), counts

    def reduce_knn(
        self,
        k: int,
        reduce: Callable[[FloatArray, IntArray], FloatArray],
        asked: NDArray[np.bool_] | None = None,
    ) -> FloatArray:
        """(M,): one number for every point, computed from its k nearest points.

        reduce  maps the squared distances (q, k), ascending, and the rows (q, k) of the neighbours
                of some points to their numbers (q,); threads call it
        asked   (M,) which points to ask; None for all. The others get 0.

        Unlike `knn` of all points, it never holds all distances and rows in memory.
        """
        tree, turns = self.tree, self.turns(self.points)
        if asked is not None:
            turns = turns[asked[turns]]
        lowest = _lowest_rows(tree)
        result = np.zeros(len(self.points))

        def fill(start: int, stop: int) -> None:
            size = max(1, _NEIGHBORS_IN_CACHE // k)
            sq_distances, rows = np.empty((size, k)), np.empty((size, k), np.int64)
            for first in range(start, stop, size):
                some = turns[first : min(first + size, stop)]
                order, queries = np.arange(len(some)), self.points[some]
                _search_range(
                    0, len(some), order, tree, lowest, queries, np.inf, sq_distances, rows
                )
                result[some] = reduce(sq_distances[: len(some)], rows[: len(some)])

        run_in_threads(fill, len(turns), grain=_NEIGHBORS_PER_THREAD // max(k, 16) + 1)
        return result

    def _queries(self, queries: ArrayLike) -> FloatArray:
        if queries is self._given or queries is self.points:
            return self.points
        return finite_points(queries, "Queries")

    def turns(self, queries: FloatArray) -> IntArray:
        """Rows (Q,) of queries (Q, 3), ordered so that each lies near the one before."""
        if queries is self.points:
            order = self.tree.order
            return order if self._kept is None else order[self._kept]
        if not len(queries):
            return np.empty(0, np.int64)
        return stable_argsort(morton_keys(queries))


def _search(
    tree: KdTree, queries: FloatArray, turns: IntArray, k: int, sq_reach: float
) -> tuple[FloatArray, IntArray]:
    """Squared distances and rows (Q, k) within `sq_reach`; row M where there are fewer.

    turns  rows of the queries to answer, in this order; the results of others are undefined
    """
    sq_distances = np.empty((len(queries), k))
    rows = np.empty((len(queries), k), np.int64)
    lowest = _lowest_rows(tree)
    run_in_threads(
        _search_range, len(turns), turns, tree, lowest, queries, sq_reach, sq_distances, rows,
        grain=_NEIGHBORS_PER_THREAD // max(k, 16) + 1,
    )  # fmt: skip
    return sq_distances, rows


def _lowest_rows(tree: KdTree) -> IntArray:
    """The lowest row in every node, which decides whether a box at a tied distance matters."""
    return fold_up(tree.order[leaf_firsts(len(tree.order), tree.depth)], np.minimum)


@compiled
def _search_range(
    start: int,
    stop: int,
    turns: IntArray,
    tree: KdTree,
    lowest: IntArray,
    queries: FloatArray,
    sq_reach: float,
    sq_distances: FloatArray,
    rows: IntArray,
) -> None:
    """Answer the queries `turns[start:stop]`, each in its row of `sq_distances` and `rows`.

    During the search, its row is a sorted list of the k best. If these are many, candidates are
    collected instead, and whenever their memory is full, the k best of them are kept.
    """
    leaves, k = 1 << tree.depth, rows.shape[1]
    x, y, z = tree.xyz[0], tree.xyz[1], tree.xyz[2]
    sq_in_leaf = np.empty(LEAF_SIZE)
    few = k <= _FEW_NEIGHBORS
    room = 0 if few else 2 * k + LEAF_SIZE
    some_sq, some_row, ends = np.empty(room), np.empty(room, np.int64), np.empty(k + 1, np.int64)
    waiting = np.empty(tree.depth + 1, np.int64)
    sq_gaps = np.empty(tree.depth + 1)
    for query in turns[start:stop]:
        qx, qy, qz = queries[query, 0], queries[query, 1], queries[query, 2]
        best_sq, best_row = sq_distances[query], rows[query]
        best_sq[:], best_row[:] = sq_reach, len(tree.order)
        worst_sq, worst_row, found = sq_reach, len(tree.order), 0
        waiting[0], sq_gaps[0] = 1, 0.0
        size = 1
        while size > 0:
            size -= 1
            node = waiting[size]
            if not before(sq_gaps[size], lowest[node], worst_sq, worst_row):
                continue
            while node < leaves:
                near, far = 2 * node, 2 * node + 1
                sq_near, sq_far = _sq_gap(tree, near, qx, qy, qz), _sq_gap(tree, far, qx, qy, qz)
                if sq_far < sq_near:
                    near, far, sq_near, sq_far = far, near, sq_far, sq_near
                waiting[size], sq_gaps[size] = far, sq_far
                size += 1
                node = near
            a, b = leaf_range(tree, node)
            sq_distances_to(qx, qy, qz, x[a:b], y[a:b], z[a:b], sq_in_leaf)
            if few:
                for place in range(a, b):
                    sq, row = sq_in_leaf[place - a], tree.order[place]
                    if before(sq, row, best_sq[k - 1], best_row[k - 1]):
                        insert(best_sq, best_row, sq, row)
                worst_sq, worst_row = best_sq[k - 1], best_row[k - 1]
                continue
            for place in range(a, b):
                # Writing always, even what does not count, avoids a branch that is hard to predict.
                some_sq[found], some_row[found] = sq_in_leaf[place - a], tree.order[place]
                found += before(some_sq[found], some_row[found], worst_sq, worst_row)
            if found > room - LEAF_SIZE:
                select_nearest(some_sq[:found], some_row[:found], k)
                found = k
                worst = farthest_of(some_sq[:k], some_row[:k])
                worst_sq, worst_row = some_sq[worst], some_row[worst]
        if found > k:
            select_nearest(some_sq[:found], some_row[:found], k)
            found = k
        sort_pairs(some_sq[:found], some_row[:found], ends, best_sq, best_row)


@compiled
def _sq_gap(tree: KdTree, node: int, x: float, y: float, z: float) -> float:
    """Squared distance to a box, rounded like those to points, so it never exceeds theirs."""
    gap_x: float = max(tree.low[0, node] - x, x - tree.high[0, node], 0.0)
    gap_y: float = max(tree.low[1, node] - y, y - tree.high[1, node], 0.0)
    gap_z: float = max(tree.low[2, node] - z, z - tree.high[2, node], 0.0)
    return gap_x * gap_x + gap_y * gap_y + gap_z * gap_z
