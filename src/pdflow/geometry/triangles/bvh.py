"""A balanced tree of bounding boxes, built and walked by compiled loops.

The tree is a complete binary heap: node i has the children 2i + 1 and 2i + 2, the last `leaves`
nodes are the leaves, and leaf l holds the items `order[l * count // leaves : (l + 1) * count //
leaves]`. No pointers are stored: a walk needs only `order` and `boxes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from pdflow.compiled import compiled, inlined
from pdflow.geometry.arrays import FloatArray, IntArray

LEAF_SIZE = 4
"""Items per leaf: at most this many, at least half as many."""

STACK = 64
"""Size of the stack of a walk: one node per level, and no tree is deeper."""


class BoxTree(NamedTuple):
    """Items sorted into leaves (`order`, (F,)) and the box of every node (`boxes`, (nodes, 6))."""

    order: IntArray
    boxes: FloatArray


Stack: TypeAlias = tuple[IntArray, FloatArray]
"""Nodes that a walk still has to visit, and a lower bound of the distance to each."""

Query = TypeVar("Query")


def build_tree(low: FloatArray, high: FloatArray) -> BoxTree:
    """The tree of items, each described by its box.

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


@inlined
def nearest_item(
    tree: BoxTree,
    stack: Stack,
    query: Query,
    bound: Callable[[Query, FloatArray, int, float], float],
    measure: Callable[[Query, int, float], float],
) -> tuple[float, int]:
    """The distance to the item that is nearest to a query, and the item; inf and -1 for none.

    stack    room for the walk
    bound    (query, boxes, node, best) -> a lower bound of the distance to the items of a node;
             any number from `best` on leaves the node out
    measure  (query, item, best) -> the distance to an item, which is taken if below `best`
    """
    order, boxes = tree
    nodes, bounds = stack
    best, nearest = np.inf, -1
    nodes[0], bounds[0], top = 0, 0.0, 1
    while top > 0:
        top -= 1
        node = nodes[top]
        if bounds[top] >= best:
            continue
        if node >= len(boxes) // 2:
            begin, end = leaf_range(node, boxes, len(order))
            for i in range(begin, end):
                distance = measure(query, order[i], best)
                if distance < best:
                    best, nearest = distance, order[i]
            continue
        near, far = 2 * node + 1, 2 * node + 2
        near_bound, far_bound = bound(query, boxes, near, best), bound(query, boxes, far, best)
        if far_bound < near_bound:
            near, far, near_bound, far_bound = far, near, far_bound, near_bound
        nodes[top], bounds[top] = far, far_bound
        nodes[top + 1], bounds[top + 1] = near, near_bound
        top += 2
    return best, nearest


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
