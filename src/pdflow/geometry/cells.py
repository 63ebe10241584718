"""Cells: compact regions of a cloud with a limited number of points each.

They are nodes of an octree, or several children of one node. They depend on the points alone, not
on the order in which these are read or on how many are in memory, so work that is done cell by
cell gives the same result for a part of a cloud as for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.morton import BITS, Grid
from pdflow.parallel import fill_rows, stable_argsort

_LEVELS_PER_ROUND = 5
"""Levels of the octree that one round over all points counts."""


@dataclass(frozen=True)
class Cells:
    """Cells (C,) in the order of the Morton curve.

    grid    the curve
    starts  (C,) first key of each cell, ascending; a cell ends where the next one starts
    counts  (C,) points in each
    """

    grid: Grid
    starts: IntArray
    counts: IntArray

    def __len__(self) -> int:
        return len(self.starts)

    def of(self, points: FloatArray) -> IntArray:
        """(M,): the cell of each point (M, 3)."""
        return self.of_keys(self.grid.keys(points))

    def of_keys(self, keys: IntArray) -> IntArray:
        """(M,): the cell that each key (M,) lies in."""
        return fill_rows(
            np.empty(len(keys), np.int64),
            lambda part: np.searchsorted(self.starts, keys[part], side="right") - 1,
        )

    def grouped(self, most: int) -> IntArray:
        """First cells (T,) of compact groups of consecutive cells with at most `most` points.

        Groups are nodes of the same octree, so a cell is never divided; one that is larger than
        `most` is a group of its own.
        """
        starts, _ = _octree(self.starts, self.counts, most)
        return np.unique(np.searchsorted(self.starts, starts, side="right") - 1)


def make_cells(chunks: Callable[[], Iterable[FloatArray]], grid: Grid, most: int) -> Cells:
    """The cells of a cloud, of at most `most` points each (except for equal points).

    chunks  called once per round: all points of the cloud, in parts (m, 3)

    >>> points = np.random.default_rng(0).random((1000, 3))
    >>> cells = make_cells(lambda: [points], Grid(np.zeros(3), 1.0), 200)
    >>> int(cells.counts.max()) <= 200, int(cells.counts.sum())
    (True, 1000)
    >>> bool((np.bincount(cells.of(points), minlength=len(cells)) == cells.counts).all())
    True
    """
    level, open_nodes = 0, np.zeros(1, np.int64)
    starts, counts = [], []
    while len(open_nodes):
        above, level = level, min(level + _LEVELS_PER_ROUND, BITS)
        nodes, held = _count_nodes(chunks(), grid, open_nodes, above, level)
        full = held > most if level < BITS else np.zeros(len(held), dtype=bool)
        starts.append(nodes[~full] << (3 * (BITS - level)))
        counts.append(held[~full])
        open_nodes = nodes[full]
    order = np.argsort(np.concatenate(starts))
    found = np.concatenate(starts)[order], np.concatenate(counts)[order]
    return Cells(grid, *_octree(*found, most))


def _count_nodes(
    chunks: Iterable[FloatArray], grid: Grid, inside: IntArray, above: int, level: int
) -> tuple[IntArray, IntArray]:
    """The nodes of a level that hold points and lie inside given ones of the level `above`."""
    nodes, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    for points in chunks:
        keys = grid.keys(points) >> (3 * (BITS - level))
        if above:
            parents = keys >> (3 * (level - above))
            place = np.minimum(np.searchsorted(inside, parents), len(inside) - 1)
            keys = keys[inside[place] == parents]
        new, held = _count_keys(keys)
        nodes, where = np.unique(np.concatenate([nodes, new]), return_inverse=True)
        counts = np.bincount(where, np.concatenate([counts, held]), len(nodes)).astype(np.int64)
    return nodes, counts


def _count_keys(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Different keys (m,), ascending, and how often each occurs."""
    if not len(keys):
        return keys, keys
    if keys.max() < 2**16:
        counts = np.bincount(keys)
        return np.flatnonzero(counts), counts[counts > 0]
    ordered = keys[stable_argsort(keys)]
    firsts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    return ordered[firsts], np.diff(firsts, append=len(keys))


def _octree(starts: IntArray, counts: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """First keys and counts of the largest nodes, or runs of siblings, with at most `most` points.

    starts, counts  of nodes that are small enough, in ascending order
    """
    before = np.concatenate([[0], np.cumsum(counts)])
    found: list[tuple[int, int]] = []

    def points_between(first: int, last: int) -> int:
        a, b = np.searchsorted(starts, (first, last))
        return int(before[b] - before[a])

    def descend(first: int, level: int) -> None:
        step = 1 << (3 * (BITS - level - 1))
        run: tuple[int, int] | None = None
        for child in range(first, first + 8 * step, step):
            held = points_between(child, child + step)
            if held == 0:
                continue
            is_node = step == 1 or held <= most
            if run is not None and (not is_node or run[1] + held > most):
                found.append(run)
                run = None
            if not is_node:
                descend(child, level + 1)
            else:
                run = (child, held) if run is None else (run[0], run[1] + held)
        if run is not None:
            found.append(run)

    if before[-1] <= most:
        return np.zeros(1, np.int64), before[-1:].copy()
    descend(0, 0)
    first_keys, held = np.array(found, np.int64).T
    first_keys[0] = 0
    return first_keys, held
