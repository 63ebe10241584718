"""A balanced tree of bounding boxes, built and walked by compiled loops.

The tree is a complete binary heap: node i has the children 2i + 1 and 2i + 2, the last `leaves`
nodes are the leaves, and leaf l holds the items `order[l * count // leaves : (l + 1) * count //
leaves]`. So no pointers are stored, and a walk needs only `order` and `boxes`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray

LEAF_SIZE = 4
"""Items per leaf: at most this many, at least half as many."""

STACK = 64
"""Room for the nodes a walk still has to visit: one per level, and no tree is deeper."""


class BoxTree(NamedTuple):
    """Items sorted into leaves (`order`, (F,)) and the box of every node (`boxes`, (nodes, 6))."""

    order: IntArray
    boxes: FloatArray


def build_tree(low: FloatArray, high: FloatArray) -> BoxTree:
    """A tree over items given by the corners of their boxes.

    low, high  (F, 3) smallest and largest coordinate of every item, F > 0

    Items are halved at the median of their centres along the widest axis, level by level.
    """
    count = len(low)
    leaves = 1
    while leaves * LEAF_SIZE < count:
        leaves *= 2
    order = np.arange(count)
    boxes = np.empty((2 * leaves - 1, 6))
    _sort_into_leaves(0.5 * (low + high), order, leaves)
    _fill_boxes(low, high, order, leaves, boxes)
    return BoxTree(order, boxes)


@compiled
def leaf_range(node: int, boxes: FloatArray, count: int) -> tuple[int, int]:
    """First and last-plus-one position in `order` of the items of a leaf."""
    leaves = (len(boxes) + 1) // 2
    leaf = node - (leaves - 1)
    return leaf * count // leaves, (leaf + 1) * count // leaves


@compiled
def point_to_box(px: float, py: float, pz: float, boxes: FloatArray, node: int) -> float:
    """Squared distance from a point to the box of a node."""
    x: float = max(boxes[node, 0] - px, px - boxes[node, 3], 0.0)
    y: float = max(boxes[node, 1] - py, py - boxes[node, 4], 0.0)
    z: float = max(boxes[node, 2] - pz, pz - boxes[node, 5], 0.0)
    return x * x + y * y + z * z


@compiled
def ray_to_box(
    origin: FloatArray, way: FloatArray, reach: float, boxes: FloatArray, node: int
) -> float:
    """Distance at which a ray enters a box; inf where it does not before `reach`."""
    enter, leave = 0.0, reach
    for k in range(3):
        if way[k] == 0.0:
            if origin[k] < boxes[node, k] or origin[k] > boxes[node, k + 3]:
                return np.inf
            continue
        a = (boxes[node, k] - origin[k]) / way[k]
        b = (boxes[node, k + 3] - origin[k]) / way[k]
        enter, leave = max(enter, min(a, b)), min(leave, max(a, b))
    return enter if enter <= leave else np.inf


@compiled
def _sort_into_leaves(centers: FloatArray, order: IntArray, leaves: int) -> None:
    count = len(order)
    width = leaves
    while width > 1:
        for first in range(0, leaves, width):
            start, stop = first * count // leaves, (first + width) * count // leaves
            axis, widest = 0, -1.0
            for k in range(3):
                least = most = centers[order[start], k]
                for i in range(start + 1, stop):
                    value = centers[order[i], k]
                    least, most = min(least, value), max(most, value)
                if most - least > widest:
                    axis, widest = k, most - least
            _select(centers, axis, order, start, stop, (first + width // 2) * count // leaves)
        width //= 2


@compiled
def _select(
    centers: FloatArray, axis: int, order: IntArray, start: int, stop: int, middle: int
) -> None:
    """Reorder `order[start:stop]` so that nothing before `middle` lies beyond it (Hoare)."""
    low, high = start, stop - 1
    while low < high:
        pivot = centers[order[(low + high) // 2], axis]
        i, j = low, high
        while i <= j:
            while centers[order[i], axis] < pivot:
                i += 1
            while centers[order[j], axis] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@compiled
def _fill_boxes(
    low: FloatArray, high: FloatArray, order: IntArray, leaves: int, boxes: FloatArray
) -> None:
    for node in range(2 * leaves - 2, -1, -1):
        for k in range(3):
            boxes[node, k], boxes[node, k + 3] = np.inf, -np.inf
        if node >= leaves - 1:
            start, stop = leaf_range(node, boxes, len(order))
            for i in range(start, stop):
                for k in range(3):
                    boxes[node, k] = min(boxes[node, k], low[order[i], k])
                    boxes[node, k + 3] = max(boxes[node, k + 3], high[order[i], k])
        else:
            for child in (2 * node + 1, 2 * node + 2):
                for k in range(3):
                    boxes[node, k] = min(boxes[node, k], boxes[child, k])
                    boxes[node, k + 3] = max(boxes[node, k + 3], boxes[child, k + 3])
