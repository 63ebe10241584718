"""The neighbour graph of one patch on one core.

In a small patch, measuring many distances per point without a branch is faster than descending a
tree. A k-d tree (`pdflow.geometry.kdtree`) only groups points into leaves. All points of a leaf
search among the same candidates, the points near the leaf. A limit on the distance, found by
counting, leaves a few more than k of them, which are sorted.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.kdtree import KdTree, build_tree, sq_distances_to

_LEAF_SIZE = 16

_SPARE = 8
"""Points beyond k that may stay within the limit."""

_ROUNDING = 1 + 1e-9
"""Enlarges limits, so that rounding never loses a candidate."""


def patch_graph(points: NDArray[np.floating], k: int) -> IntArray:
    """Nearest neighbours in a patch (N, 3), the point itself included, nearest first: (N, k).

    k  at most N; of equally near points, the lower row comes first
    """
    rows = np.empty((len(points), k), np.int64)
    if rows.size:
        _search(build_tree(points.astype(np.float64), _LEAF_SIZE), k, rows)
    return rows


@compiled
def _search(tree: KdTree, k: int, rows: IntArray) -> None:
    x, y, z = tree.xyz[0], tree.xyz[1], tree.xyz[2]
    count = len(x)
    near_x, near_y, near_z = np.empty(count), np.empty(count), np.empty(count)
    near_row, sq_near = np.empty(count, np.int64), np.empty(count)
    chosen_sq, chosen_row = np.empty(count), np.empty(count, np.int64)
    sq_center, picked = np.empty(count), np.empty(count + 1, np.int64)
    sq_limit = np.inf
    for leaf in range(1 << tree.depth):
        first, last = _place(tree, leaf, 0), _place(tree, leaf + 1, 0)
        cx, cy, cz = x[first:last].mean(), y[first:last].mean(), z[first:last].mean()
        sq_distances_to(cx, cy, cz, x, y, z, sq_center)
        # k points lie within `reach` of the centre, so within reach + radius of any point here.
        up = 0
        while _place(tree, (leaf >> up) + 1, up) - _place(tree, leaf >> up, up) < k:
            up += 1
        around = sq_center[_place(tree, leaf >> up, up) : _place(tree, (leaf >> up) + 1, up)]
        reach, radius = math.sqrt(around.max()), math.sqrt(sq_center[first:last].max())
        sq_far = ((reach + 2 * radius) * _ROUNDING) ** 2
        near = _pick(sq_center, sq_far, picked)
        for i in range(near):
            near_x[i], near_y[i], near_z[i] = x[picked[i]], y[picked[i]], z[picked[i]]
            near_row[i] = tree.order[picked[i]]
        for i in range(first, last):
            sq_distances_to(x[i], y[i], z[i], near_x[:near], near_y[:near], near_z[:near], sq_near)
            sq_sure = ((reach + math.sqrt(sq_center[i])) * _ROUNDING) ** 2
            sq_limit = _limit(sq_near[:near], k, min(sq_limit, sq_sure), sq_sure)
            chosen = _pick(sq_near[:near], sq_limit, picked)
            for j in range(chosen):
                chosen_sq[j], chosen_row[j] = sq_near[picked[j]], near_row[picked[j]]
            _put_in_order(chosen_sq[:chosen], chosen_row[:chosen], rows[tree.order[i]])


@compiled
def _place(tree: KdTree, node: int, up: int) -> int:
    """First place of a node that is `up` levels above the leaves; nodes count from the left."""
    return (node * len(tree.order)) >> (tree.depth - up)


@compiled
def _pick(sq_distances: FloatArray, sq_limit: float, picked: IntArray) -> int:
    """Write the places of distances within the limit to `picked`; returns their number."""
    count = np.uint64(0)  # unsigned, so that numba does not check for negative indices
    for i in range(len(sq_distances)):
        picked[count] = i
        count += np.uint64(sq_distances[i] <= sq_limit)
    return int(count)


@compiled
def _limit(sq_distances: FloatArray, k: int, guess: float, sure: float) -> float:
    """A squared distance within which at least k points lie, and few more if possible.

    sure  a limit that is known to hold k points
    """
    low, high = 0.0, sure
    for _ in range(16):
        inside = 0
        for i in range(len(sq_distances)):
            inside += sq_distances[i] <= guess
        if inside < k:
            low = guess
        else:
            high = guess
            if inside <= k + _SPARE:
                break
        # On a surface, the number of points grows with the squared distance.
        guess *= (k + _SPARE / 2) / max(inside, 1)
        if not low < guess < high:
            guess = (low + high) / 2
    return high


@compiled
def _put_in_order(sq_distances: FloatArray, names: IntArray, nearest: IntArray) -> None:
    """Write the names of the k nearest to `nearest` (k,), ties by name."""
    for i in range(len(names)):
        rank = 0
        for j in range(len(names)):
            rank += (sq_distances[j] < sq_distances[i]) | (
                (sq_distances[j] == sq_distances[i]) & (names[j] < names[i])
            )
        if rank < len(nearest):
            nearest[rank] = names[i]
