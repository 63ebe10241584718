"""Halve points at their median, again and again, into the leaves of a k-d tree."""

from __future__ import annotations

import numpy as np

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray


@compiled
def halve(start: int, stop: int, rows: FloatArray, level: int) -> None:
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
def sort_into_leaves(start: int, stop: int, rows: FloatArray, top: int, depth: int) -> None:
    """Halve the nodes `start` to `stop - 1` of level `top` and their descendants, to the leaves.

    One node is finished before the next, because its points soon fit into the cache.
    """
    count = len(rows)
    for node in range(start, stop):
        for level in range(top, depth):
            first = node << (level - top)
            halve(first, first + (1 << (level - top)), rows, level)
        for leaf in range(node << (depth - top), (node + 1) << (depth - top)):
            _sort_by_index(rows[(leaf * count) >> depth : ((leaf + 1) * count) >> depth])


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
