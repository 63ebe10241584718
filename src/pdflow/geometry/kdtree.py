"""A balanced k-d tree of points, laid out for the compiled loops that walk it.

The tree is a heap: node 1 is the root, node n has the children 2n and 2n + 1, and the nodes at
the last level, `leaves` to `2 * leaves - 1`, are the leaves. Every split halves the points at
their median along the longest side of their box. So the tree is always balanced, even with
duplicates, and stores no pointers.

Unlike in scipy's cKDTree, the leaves lie in memory one after the other. That matters most for
speed: see `pdflow.geometry.neighbors` for figures.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.halving import halve, sort_into_leaves
from pdflow.parallel import fill_rows, run_in_threads

_TOP_LEVELS = 6
_THREADED_POINTS = 32_768
"""In smaller clouds, a second thread costs more time than it saves."""

Scalar = TypeVar("Scalar", np.float64, np.int64)


class KdTree(NamedTuple):
    """M points sorted into leaves, and the tight box of every node.

    depth      levels below the root; there are 2**depth leaves
    order      (M,) row of the point at each place of the tree, ascending in a leaf
    xyz        (3, M) coordinates at each place of the tree
    low, high  (3, 2 * leaves) smallest and largest coordinates of every node
    """

    depth: int
    order: IntArray
    xyz: FloatArray
    low: FloatArray
    high: FloatArray


def build_tree(points: FloatArray, leaf_size: int) -> KdTree:
    """The tree of `points` (M, 3), M > 0.

    leaf_size  points in a leaf at most, 2 or more; no leaf is less than half full
    """
    depth = 0
    while leaf_size << depth < len(points):
        depth += 1
    count, leaves = len(points), 1 << depth
    rows = fill_rows(
        np.empty((count, 4)),
        lambda part: np.column_stack([points[part], np.arange(part.start, part.stop)]),
    )
    # From this level on there are a few nodes for each thread.
    top = min(depth, _TOP_LEVELS) if count >= _THREADED_POINTS else 0
    for level in range(top):
        run_in_threads(halve, 1 << level, rows, level, grain=1)
    run_in_threads(sort_into_leaves, 1 << top, rows, top, depth, grain=1)
    tree = KdTree(
        depth,
        np.empty(count, np.int64),
        np.empty((3, count)),
        np.empty((3, 2 * leaves)),
        np.empty((3, 2 * leaves)),
    )
    run_in_threads(_fill_leaves, leaves, rows, tree, grain=_THREADED_POINTS // leaf_size)
    _fill_inner(tree.low, tree.high)
    return tree


def refit_tree(tree: KdTree, points: FloatArray) -> KdTree:
    """The same leaves with the coordinates `points` (M, 3), and tight boxes around them.

    Searches stay exact. They stay fast as long as points that share a leaf lie together.
    """
    fitted = tree._replace(
        xyz=np.empty_like(tree.xyz), low=np.empty_like(tree.low), high=np.empty_like(tree.high)
    )
    leaves = 1 << tree.depth
    grain = 1 + _THREADED_POINTS * leaves // len(points)
    run_in_threads(_refill_leaves, leaves, points, fitted, grain=grain)
    _fill_inner(fitted.low, fitted.high)
    return fitted


def keep_points(
    tree: KdTree, points: FloatArray, held: NDArray[np.bool_], mask: NDArray[np.bool_]
) -> tuple[FloatArray, KdTree, NDArray[np.bool_]]:
    """The points (m, 3) that a mask (M,) keeps, their tree, and which of its places hold one.

    held  (places,) whether each place of the tree holds one of `points` (M, 3)

    Places and boxes stay. A point that is left out gets the row of the next one that is kept, so
    that rows still ascend in a leaf. It is never found, because it lies at infinity.
    """
    before_row = np.concatenate([[0], np.cumsum(mask)])
    some = np.empty((before_row[-1], 3))
    run_in_threads(_keep_rows, len(mask), mask, before_row, points, some)
    kept = np.empty(len(held), dtype=bool)
    part = tree._replace(order=np.empty_like(tree.order), xyz=np.empty_like(tree.xyz))
    given, new = (held, tree.order, tree.xyz), (kept, part.order, part.xyz)
    run_in_threads(_keep_places, len(held), mask, before_row, *given, *new)
    return some, part, kept


@compiled
def build_tree_alone(points: FloatArray, held: IntArray, leaf_size: int) -> KdTree:
    """The tree of some rows (m,) of `points` (M, 3), m > 0, for loops that have one thread each.

    Its rows are places in `held`.
    """
    depth, count = 0, len(held)
    while leaf_size << depth < count:
        depth += 1
    rows = np.empty((count, 4))
    for place in range(count):
        for axis in range(3):
            rows[place, axis] = points[held[place], axis]
        rows[place, 3] = place
    sort_into_leaves(0, 1, rows, 0, depth)
    nodes = 2 << depth
    tree = KdTree(
        depth,
        np.empty(count, np.int64),
        np.empty((3, count)),
        np.empty((3, nodes)),
        np.empty((3, nodes)),
    )
    _fill_leaves(0, 1 << depth, rows, tree)
    _fill_inner(tree.low, tree.high)
    return tree


def leaf_firsts(count: int, depth: int) -> IntArray:
    """First place of each of the 2**depth leaves of `count` points, as `leaf_range` has it."""
    return (np.arange(1 << depth) * count) >> depth


def fold_up(of_leaves: NDArray[Scalar], fold: np.ufunc) -> NDArray[Scalar]:
    """Values (..., 2 * leaves) of all nodes from those of the leaves (..., leaves).

    >>> fold_up(np.array([4, 2, 7, 5]), np.minimum)[1:].tolist()
    [2, 2, 5, 4, 2, 7, 5]
    """
    levels: list[NDArray[Scalar]] = [of_leaves]
    while levels[0].shape[-1] > 1:
        levels.insert(0, fold(levels[0][..., ::2], levels[0][..., 1::2]))
    return np.concatenate([levels[0], *levels], axis=-1)  # node 0 does not exist: any value will do


@compiled
def leaf_range(tree: KdTree, leaf: int) -> tuple[int, int]:
    """First place of a leaf (a node of the last level), and the one after its last."""
    number = leaf - (1 << tree.depth)
    count = len(tree.order)
    return (number * count) >> tree.depth, ((number + 1) * count) >> tree.depth


@compiled
def sq_distances_to(
    x: float, y: float, z: float, xs: FloatArray, ys: FloatArray, zs: FloatArray, out: FloatArray
) -> None:
    """Write the squared distances from a point to those at xs, ys, zs (n,) to `out` (n,)."""
    for place in range(len(xs)):
        dx, dy, dz = xs[place] - x, ys[place] - y, zs[place] - z
        out[place] = dx * dx + dy * dy + dz * dz


@compiled
def _fill_leaves(start: int, stop: int, rows: FloatArray, tree: KdTree) -> None:
    """Copy the sorted rows (M, 4) of the leaves `start` to `stop - 1` into the tree."""
    leaves = 1 << tree.depth
    for leaf in range(leaves + start, leaves + stop):
        first, last = leaf_range(tree, leaf)
        for place in range(first, last):
            tree.order[place] = int(rows[place, 3])
            for axis in range(3):
                tree.xyz[axis, place] = rows[place, axis]
        _fit_box(tree, leaf)


@compiled
def _refill_leaves(start: int, stop: int, points: FloatArray, tree: KdTree) -> None:
    """Copy the points (M, 3) of the leaves `start` to `stop - 1` into a tree whose order stays."""
    leaves = 1 << tree.depth
    for leaf in range(leaves + start, leaves + stop):
        first, last = leaf_range(tree, leaf)
        for place in range(first, last):
            for axis in range(3):
                tree.xyz[axis, place] = points[tree.order[place], axis]
        _fit_box(tree, leaf)


@compiled
def _keep_rows(
    start: int,
    stop: int,
    mask: NDArray[np.bool_],
    before_row: IntArray,
    points: FloatArray,
    kept: FloatArray,
) -> None:
    """Copy the points (M, 3) that a mask keeps among the rows `start` to `stop - 1`."""
    for row in range(start, stop):
        if mask[row]:
            for axis in range(3):
                kept[before_row[row], axis] = points[row, axis]


@compiled
def _keep_places(
    start: int,
    stop: int,
    mask: NDArray[np.bool_],
    before_row: IntArray,
    held: NDArray[np.bool_],
    order: IntArray,
    xyz: FloatArray,
    kept: NDArray[np.bool_],
    new_order: IntArray,
    new_xyz: FloatArray,
) -> None:
    """Rows and coordinates at the places `start` to `stop - 1` of a tree, whose points a mask (M,)
    keeps or not; `held` says at which places there is a point."""
    for place in range(start, stop):
        row = order[place]
        kept[place] = held[place] and mask[row]
        new_order[place] = before_row[row]
        for axis in range(3):
            new_xyz[axis, place] = xyz[axis, place] if kept[place] else np.inf


@compiled
def _fit_box(tree: KdTree, leaf: int) -> None:
    """The tight box of a leaf."""
    first, last = leaf_range(tree, leaf)
    for axis in range(3):
        least, most = np.inf, -np.inf
        for place in range(first, last):
            value = tree.xyz[axis, place]
            least, most = min(least, value), max(most, value)
        tree.low[axis, leaf], tree.high[axis, leaf] = least, most


@compiled
def _fill_inner(low: FloatArray, high: FloatArray) -> None:
    """Boxes of inner nodes from those of their children; node 0 does not exist."""
    for axis in range(3):
        for node in range(low.shape[1] // 2 - 1, 0, -1):
            low[axis, node] = min(low[axis, 2 * node], low[axis, 2 * node + 1])
            high[axis, node] = max(high[axis, 2 * node], high[axis, 2 * node + 1])
        low[axis, 0], high[axis, 0] = low[axis, 1], high[axis, 1]
