"""Split a dense cloud into sparser ones of the same shape (supplement C.3)."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.axes import OwnFrame
from pdflow.geometry.morton import Grid, morton_keys


def interleave(
    points: FloatArray, parts: int, cells: IntArray | None = None, grid: Grid | None = None
) -> list[IntArray]:
    """Rows of `parts` partitions, each of which covers all of `points` (M, 3) evenly.

    cells  (M,) the cell of each point of a large cloud, and `grid`, the curve that they lie on:
           the points of each cell are divided alone

    Points are sorted along a space-filling (Morton) curve, and every `parts`-th goes to the same
    partition. Neighbours on the curve are neighbours in space, so every partition gets its share
    of every region.

    Paper: partitions are strides of the farthest-point order. That order takes seconds for a
    million points; the curve only needs a sort.

    >>> [len(rows) for rows in interleave(np.random.default_rng(0).normal(size=(11, 3)), 3)]
    [4, 4, 3]
    """
    if cells is None or grid is None:
        # In its own frame a cloud is divided alike, however it is turned.
        order = np.argsort(morton_keys(OwnFrame.of(points).apply(points)), kind="stable")
        return [order[start::parts] for start in range(parts)]
    order = np.lexsort((grid.keys(points), cells))
    _, first, place = np.unique(cells[order], return_index=True, return_inverse=True)
    part = (np.arange(len(order)) - first[place]) % parts
    return [np.sort(order[part == number]) for number in range(parts)]
