"""Choose points of a cloud at random, but the same ones after a tiny change of coordinates.

A point is chosen by the grid cell that it lies in: the cell has a random number, and its points
are chosen if that number is small. The order of rows does not matter. A change of coordinates
moves only points at the border of a cell to another one, and these have a weight that falls to 0
at the border, so whatever is averaged with these weights changes smoothly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray, generator
from pdflow.geometry.axes import OwnFrame
from pdflow.parallel import run_in_threads

CELLS_PER_SPACING = 2.4
"""Cells over the distance between points: mostly one point in a cell, so they are independent."""

FEWEST_SHARE, FINER, MOST_REFINED = 0.125, 16.0, 9
"""Where fewer than this share of the points that are wanted lie in chosen cells, cells are made
finer by this factor, this often at most."""

MARGIN = 0.1
"""Share of a cell next to its border where weights fall from 1 to 0."""

AXES = np.array([[0.8165, 0.4082, 0.4082], [-0.5222, 0.8387, 0.1543], [-0.2471, -0.3606, 0.8994]])
"""Directions of the cells' axes in the cloud's own frame, which no grid of points is aligned with.
"""

_NUMBERS_IN_CACHE, _MOST_RANGES = 16_384, 63

_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)


class Sample(NamedTuple):
    """Points that were chosen.

    rows     (S,) of the cloud, those with the smallest numbers first
    weights  (S,) from 0 to 1
    numbers  (S,) ascending, uniform from 0 to the share of the points that was chosen
    """

    rows: IntArray
    weights: FloatArray
    numbers: FloatArray

    def first(self, share: float) -> Sample:
        """The sample of a smaller share of the points: a part of this one."""
        part = slice(int(np.searchsorted(self.numbers, share)))
        return Sample(self.rows[part], self.weights[part], self.numbers[part])


def stable_sample(points: FloatArray, frame: OwnFrame, wanted: int, seed: int = 0) -> Sample:
    """About `wanted` of `points` (M, 3), all of them with weight 1 if there are no more.

    frame  the cloud's own: cells turn with the cloud, so a rotation chooses the same points

    >>> points = np.random.default_rng(0).uniform(-1, 1, (5000, 3))
    >>> sample = stable_sample(points, OwnFrame.of(points), 500)
    >>> bool(abs(len(sample.rows) - 500) < 100 and sample.weights.max() == 1)
    True
    """
    count = len(points)
    if count <= wanted:
        order = np.lexsort(frame.apply(points).T)
        return Sample(order, np.ones(count), (np.arange(count) + 0.5) / count)
    cells = CELLS_PER_SPACING * np.sqrt(count)
    for _ in range(MOST_REFINED):
        sample = _sample_cells(points, frame, wanted / count, cells, seed)
        if len(sample.rows) >= FEWEST_SHARE * wanted:
            break
        cells *= FINER  # the cloud is a few clumps far apart, each in one cell that was not chosen
    return sample


def _sample_cells(
    points: FloatArray, frame: OwnFrame, limit: float, cells: float, seed: int
) -> Sample:
    """The share `limit` of `points` (M, 3), by cells of which `cells` make a unit."""
    rng = generator(seed)
    salt = rng.integers(2**63, dtype=np.uint64)
    directions = np.einsum("ai,ji->aj", AXES, frame.axes)
    grid = _Grid(frame.center, frame.scale, directions, cells, rng.random(3))
    all_numbers = np.empty(len(points))
    run_in_threads(_number_cells, len(points), points, grid, salt, all_numbers)
    rows, numbers = _sorted_below(all_numbers, limit)
    _sort_cells(rows, numbers, points, frame)
    weights = np.empty(len(rows))
    run_in_threads(_weigh, len(rows), points, rows, grid, weights)
    return Sample(rows, weights, numbers)


def _sorted_below(numbers: FloatArray, limit: float) -> tuple[IntArray, FloatArray]:
    """Rows (S,) of the numbers (M,) below `limit` in stable order, and these numbers (S,).

    Threads first distribute blocks of rows over ranges of numbers, and then sort each range.
    """
    ranges = 1 + min(int(limit * len(numbers)) // _NUMBERS_IN_CACHE, _MOST_RANGES)
    counts = np.zeros((-(-len(numbers) // _NUMBERS_IN_CACHE), ranges), np.int64)
    run_in_threads(_count_ranges, len(counts), numbers, limit, counts, grain=1)
    ends = np.cumsum(counts.T).reshape(ranges, -1).T
    rows, found = np.empty(counts.sum(), np.int64), np.empty(counts.sum())
    free = ends - counts
    run_in_threads(_distribute, len(counts), numbers, limit, free, rows, found, grain=1)
    run_in_threads(_sort_ranges, ranges, limit / ranges, ends[-1], rows, found, grain=1)
    return rows, found


class _Grid(NamedTuple):
    """Cells along `directions` (3, 3), as rows: `cells` of them make a unit of the frame of
    `center` (3,) and `scale`, and they are shifted by `offsets` (3,)."""

    center: FloatArray
    scale: float
    directions: FloatArray
    cells: float
    offsets: FloatArray


def _sort_cells(rows: IntArray, numbers: FloatArray, points: FloatArray, frame: OwnFrame) -> None:
    """Sort the points of each cell, which have one number, by their places.

    rows  (S,) of points (M, 3), ascending in their numbers (S,), changed in place

    So the order of rows does not matter. Most cells hold one point: sorting all by four keys would
    take ten times as long.
    """
    equal = np.flatnonzero(np.diff(numbers) == 0)
    shared = np.union1d(equal, equal + 1)
    some = rows[shared]
    rows[shared] = some[np.lexsort((*frame.apply(points[some]).T, numbers[shared]))]


@compiled
def _number_cells(
    start: int, stop: int, points: FloatArray, grid: _Grid, salt: np.uint64, numbers: FloatArray
) -> None:
    """Write the random number, 0 to 1, of the cell of each point `start` to `stop - 1`."""
    for row in range(start, stop):
        key = salt
        for axis in range(3):
            along = np.int64(math.floor(_along(points, row, axis, grid)))
            key = _mixed(key ^ (np.uint64(along) * np.uint64(_FACTORS[axis])))
        numbers[row] = np.float64(key) * 2.0**-64


@compiled
def _count_ranges(
    start: int, stop: int, numbers: FloatArray, limit: float, counts: IntArray
) -> None:
    """Count the numbers of the blocks `start` to `stop - 1` in each range."""
    ranges = counts.shape[1]
    for block in range(start, stop):
        for number in numbers[block * _NUMBERS_IN_CACHE : (block + 1) * _NUMBERS_IN_CACHE]:
            if number < limit:
                counts[block, min(int(number / limit * ranges), ranges - 1)] += 1


@compiled
def _distribute(
    start: int,
    stop: int,
    numbers: FloatArray,
    limit: float,
    free: IntArray,
    rows: IntArray,
    found: FloatArray,
) -> None:
    """Write the rows and numbers of the blocks `start` to `stop - 1` to the places of their ranges.

    free  (blocks, ranges) the first place of each block in each range, changed in place
    """
    ranges = free.shape[1]
    for block in range(start, stop):
        first = block * _NUMBERS_IN_CACHE
        for row in range(first, min(first + _NUMBERS_IN_CACHE, len(numbers))):
            if numbers[row] < limit:
                part = min(int(numbers[row] / limit * ranges), ranges - 1)
                place = free[block, part]
                rows[place], found[place] = row, numbers[row]
                free[block, part] = place + 1


@compiled
def _sort_ranges(
    start: int, stop: int, width: float, ends: IntArray, rows: IntArray, found: FloatArray
) -> None:
    """Sort the ranges `start` to `stop - 1`, each `width` wide and up to one of `ends`."""
    for part in range(start, stop):
        first = ends[part - 1] if part > 0 else 0
        some, values = rows[first : ends[part]], found[first : ends[part]]
        order = _argsort(values, part * width, width)
        some[:], values[:] = some[order], values[order]


@compiled
def _argsort(numbers: FloatArray, low: float, width: float) -> IntArray:
    """The stable order (S,) of numbers (S,) that are uniform in a range from `low` on.

    There are as many buckets as numbers, so few share one.
    """
    count = len(numbers)
    buckets, ends = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    for place in range(count):
        bucket = int((numbers[place] - low) / width * count)
        buckets[place] = max(0, min(bucket, count - 1))
        ends[buckets[place] + 1] += 1
    ends = np.cumsum(ends)
    order = np.empty(count, np.int64)
    for place in range(count):
        order[ends[buckets[place]]] = place
        ends[buckets[place]] += 1
    for place in range(1, count):
        chosen, free = order[place], place
        while free > 0 and numbers[order[free - 1]] > numbers[chosen]:
            order[free] = order[free - 1]
            free -= 1
        order[free] = chosen
    return order


@compiled
def _weigh(
    start: int, stop: int, points: FloatArray, rows: IntArray, grid: _Grid, weights: FloatArray
) -> None:
    """Write the weights of the points `rows[start:stop]`: 1, and down to 0 at borders of cells."""
    for place in range(start, stop):
        weight = 1.0
        for axis in range(3):
            along = _along(points, rows[place], axis, grid)
            share = along - math.floor(along)
            weight = min(weight, min(share, 1 - share) / MARGIN)
        weights[place] = weight


@compiled
def _along(points: FloatArray, row: int, axis: int, grid: _Grid) -> float:
    """Where a point lies along one of the directions, in cells."""
    x = (points[row, 0] - grid.center[0]) / grid.scale
    y = (points[row, 1] - grid.center[1]) / grid.scale
    z = (points[row, 2] - grid.center[2]) / grid.scale
    direction = grid.directions[axis]
    along = x * direction[0] + y * direction[1] + z * direction[2]
    cells: float = along * grid.cells + grid.offsets[axis]
    return cells


@compiled
def _mixed(key: np.uint64) -> np.uint64:
    """A number of 64 bits, each of which depends on all bits of the given one."""
    mixed: np.uint64 = (key ^ (key >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(29)
    return mixed
