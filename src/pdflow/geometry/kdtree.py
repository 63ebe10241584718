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
        run_in_threads(_halve, 1 << level, rows, level, grain=1)
    run_in_threads(_sort_into_leaves, 1 << top, rows, top, depth, grain=1)
    tree = KdTree(
        depth,
        np.empty(count, np.int64),
        np.empty((3, count)),
        np.empty((3, 2 * leaves)),
        np.empty((3, 2 * leaves)),
    )
    run_in_threads(_fill_leaves, leaves, rows, *tree, grain=_THREADED_POINTS // leaf_size)
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
    run_in_threads(_refill_leaves, leaves, points, *fitted, grain=grain)
    _fill_inner(fitted.low, fitted.high)
    return fitted


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
    _sort_into_leaves(0, 1, rows, 0, depth)
    nodes = 2 << depth
    order, xyz = np.empty(count, np.int64), np.empty((3, count))
    low, high = np.empty((3, nodes)), np.empty((3, nodes))
    _fill_leaves(0, 1 << depth, rows, depth, order, xyz, low, high)
    _fill_inner(low, high)
    return KdTree(depth, order, xyz, low, high)


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
def _halve(start: int, stop: int, rows: FloatArray, level: int) -> None:
    """Halve the nodes `start` to `stop - 1` of a level; rows (M, 4) are x, y, z and an index.

    Moving whole rows instead of indices lets each level read memory in order. That builds a tree
    of a million points two to three times faster.
    """
    count = len(rows)
    for node in range(start, stop):
        first = (node * count) >> level
        middle = ((2 * node + 1) * count) >> (level + 1)
        last = ((node + 1) * count) >> level
        part = rows[first:last]
        _split(part, _longest_side(part), middle - first)


@compiled
def _sort_into_leaves(start: int, stop: int, rows: FloatArray, top: int, depth: int) -> None:
    """Halve the nodes `start` to `stop - 1` of level `top` and their descendants, to the leaves.

    One node is finished before the next, because its points soon fit into the cache.
    """
    count = len(rows)
    for node in range(start, stop):
        for level in range(top, depth):
            first = node << (level - top)
            _halve(first, first + (1 << (level - top)), rows, level)
        for leaf in range(node << (depth - top), (node + 1) << (depth - top)):
            _sort_by_index(rows[(leaf * count) >> depth : ((leaf + 1) * count) >> depth])


@compiled
def _fill_leaves(
    start: int,
    stop: int,
    rows: FloatArray,
    depth: int,
    order: IntArray,
    xyz: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """Copy the sorted rows of the leaves `start` to `stop - 1` into the tree."""
    count, leaves = len(rows), 1 << depth
    for leaf in range(start, stop):
        first, last = (leaf * count) >> depth, ((leaf + 1) * count) >> depth
        for place in range(first, last):
            order[place] = int(rows[place, 3])
            for axis in range(3):
                xyz[axis, place] = rows[place, axis]
        _fit_box(leaves + leaf, xyz[:, first:last], low, high)


@compiled
def _refill_leaves(
    start: int,
    stop: int,
    points: FloatArray,
    depth: int,
    order: IntArray,
    xyz: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """Copy the points of the leaves `start` to `stop - 1` into a tree whose order stays."""
    count, leaves = len(points), 1 << depth
    for leaf in range(start, stop):
        first, last = (leaf * count) >> depth, ((leaf + 1) * count) >> depth
        for place in range(first, last):
            for axis in range(3):
                xyz[axis, place] = points[order[place], axis]
        _fit_box(leaves + leaf, xyz[:, first:last], low, high)


@compiled
def _fit_box(node: int, xyz: FloatArray, low: FloatArray, high: FloatArray) -> None:
    """The tight box of a node that holds the points `xyz` (3, n)."""
    for axis in range(3):
        least, most = np.inf, -np.inf
        for place in range(xyz.shape[1]):
            value = xyz[axis, place]
            least, most = min(least, value), max(most, value)
        low[axis, node], high[axis, node] = least, most


@compiled
def _fill_inner(low: FloatArray, high: FloatArray) -> None:
    """Boxes of inner nodes from those of their children; node 0 does not exist."""
    for axis in range(3):
        for node in range(low.shape[1] // 2 - 1, 0, -1):
            low[axis, node] = min(low[axis, 2 * node], low[axis, 2 * node + 1])
            high[axis, node] = max(high[axis, 2 * node], high[axis, 2 * node + 1])
        low[axis, 0], high[axis, 0] = low[axis, 1], high[axis, 1]


@compiled
def _longest_side(rows: FloatArray) -> int:
    low_x = low_y = low_z = np.inf
    high_x = high_y = high_z = -np.inf
    for row in range(len(rows)):
        x, y, z = rows[row, 0], rows[row, 1], rows[row, 2]
        low_x, high_x = min(low_x, x), max(high_x, x)
        low_y, high_y = min(low_y, y), max(high_y, y)
        low_z, high_z = min(low_z, z), max(high_z, z)
    side_x, side_y, side_z = high_x - low_x, high_y - low_y, high_z - low_z
    if side_x >= side_y and side_x >= side_z:
        return 0
    return 1 if side_y >= side_z else 2


@compiled
def _split(rows: FloatArray, axis: int, middle: int) -> None:
    """Reorder `rows` so that none before `middle` is larger along `axis` than any from it on."""
    low, high = 0, len(rows)
    while high - low > 1:
        pivot = _pivot(rows, axis, low, high)
        border = low
        for row in range(low, high):
            # Swapping always, even where nothing moves, avoids a branch that is hard to predict.
            value = rows[row, axis]
            _swap(rows, row, border)
            border += value < pivot
        if border == middle:
            return
        if middle < border:
            high = border
        elif border > low:
            low = border
        else:
            # The pivot is the smallest: set its equals aside, or duplicates take quadratic time.
            for row in range(low, high):
                value = rows[row, axis]
                _swap(rows, row, border)
                border += value == pivot
            if middle < border:
                return
            low = border


@compiled
def _pivot(rows: FloatArray, axis: int, low: int, high: int) -> float:
    """A value of `rows[low:high]` near their median: the median of three medians of three."""
    step = (high - low) // 9
    if step == 0:
        return _median(rows[low, axis], rows[(low + high) // 2, axis], rows[high - 1, axis])
    return _median(
        _median(rows[low, axis], rows[low + step, axis], rows[low + 2 * step, axis]),
        _median(rows[low + 3 * step, axis], rows[low + 4 * step, axis], rows[low + 5 * step, axis]),
        _median(rows[low + 6 * step, axis], rows[low + 7 * step, axis], rows[high - 1, axis]),
    )


@compiled
def _median(a: float, b: float, c: float) -> float:
    return max(min(a, b), min(max(a, b), c))


@compiled
def _swap(rows: FloatArray, a: int, b: int) -> None:
    x, y, z, index = rows[a, 0], rows[a, 1], rows[a, 2], rows[a, 3]
    rows[a, 0], rows[a, 1], rows[a, 2], rows[a, 3] = rows[b, 0], rows[b, 1], rows[b, 2], rows[b, 3]
    rows[b, 0], rows[b, 1], rows[b, 2], rows[b, 3] = x, y, z, index


@compiled
def _sort_by_index(rows: FloatArray) -> None:
    """Insertion sort: leaves are small, and nearly sorted if the input is."""
    for row in range(1, len(rows)):
        place = row
        while place > 0 and rows[place - 1, 3] > rows[place, 3]:
            _swap(rows, place - 1, place)
            place -= 1
