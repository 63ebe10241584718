"""Choose points of a cloud at random, but the same ones after a tiny change of coordinates.

A point is chosen by the grid cell that it lies in: the cell has a random number, and its points
are chosen if that number is small. The order of rows does not matter. A change of coordinates
moves only points at the border of a cell to another one, and these have a weight that falls to 0
at the border, so whatever is averaged with these weights changes smoothly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.frame import Frame
from pdflow.geometry.seeds import generator
from pdflow.parallel import run_in_threads

CELLS_PER_SPACING = 4.0
"""Cells over the distance between points: mostly one point in a cell, so they are independent."""

FEWEST_SHARE, FINER, MOST_REFINED = 0.125, 16.0, 9
"""Where fewer than this share of the points that are wanted lie in chosen cells, cells are made
finer by this factor, this often at most."""

MARGIN = 0.1
"""Share of a cell next to its border where weights fall from 1 to 0."""

AXES = np.array([[0.8165, 0.4082, 0.4082], [-0.5222, 0.8387, 0.1543], [-0.2471, -0.3606, 0.8994]])
"""Directions of the cells' axes, which no grid of points is aligned with."""

_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
_POINTS_IN_CACHE = 32_768


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


def stable_sample(points: FloatArray, frame: Frame, wanted: int, seed: int = 0) -> Sample:
    """About `wanted` of `points` (M, 3), all of them with weight 1 if there are no more.

    frame  brings the points into the unit sphere

    >>> points = np.random.default_rng(0).uniform(-1, 1, (5000, 3))
    >>> sample = stable_sample(points, Frame(np.zeros(3), 1.0), 500)
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
    points: FloatArray, frame: Frame, limit: float, cells: float, seed: int
) -> Sample:
    """The share `limit` of `points` (M, 3), by cells of which `cells` make a unit."""
    rng = generator(seed)
    salt = rng.integers(2**63, dtype=np.uint64)
    offsets = rng.random(3)
    count = len(points)
    parts: list[tuple[IntArray, FloatArray, FloatArray]] = []
    starts = range(0, count, _POINTS_IN_CACHE)

    def choose(first: int, last: int) -> None:
        for start in starts[first:last]:
            places = frame.apply(points[start : start + _POINTS_IN_CACHE])
            # Column by column, because a matrix product may round equal rows differently.
            x, y, z = places.T
            keys = np.full(len(places), salt)
            for axis, offset, factor in zip(AXES, offsets, _FACTORS, strict=True):
                along = np.floor((x * axis[0] + y * axis[1] + z * axis[2]) * cells + offset)
                keys = _mixed(keys ^ (along.astype(np.int64).astype(np.uint64) * np.uint64(factor)))
            numbers = keys.astype(np.float64) * 2.0**-64
            rows = np.flatnonzero(numbers < limit)
            parts.append((start + rows, numbers[rows], _weights(places[rows], cells, offsets)))

    run_in_threads(choose, len(starts), grain=1)
    rows, numbers, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(numbers, kind="stable")
    _sort_cells(order, numbers, frame.apply(points[rows]))
    return Sample(rows[order], weights[order], numbers[order])


def _sort_cells(order: IntArray, numbers: FloatArray, places: FloatArray) -> None:
    """Sort the points of each cell, which have one number, by their places (S, 3).

    order  (S,) ascending in numbers (S,), changed in place

    So the order of rows does not matter. Most cells hold one point: sorting all by four keys would
    take ten times as long.
    """
    equal = np.flatnonzero(np.diff(numbers[order]) == 0)
    shared = np.union1d(equal, equal + 1)
    some = order[shared]
    order[shared] = some[np.lexsort((*places[some].T, numbers[some]))]


def _mixed(keys: np.ndarray) -> np.ndarray:
    """Numbers (M,) of 64 bits, each of which depends on all bits of the given one."""
    keys = (keys ^ (keys >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.asarray(keys ^ (keys >> np.uint64(29)))


def _weights(places: FloatArray, cells: float, offsets: FloatArray) -> FloatArray:
    """(S,): 1, and down to 0 at the borders of cells."""
    x, y, z = places.T
    weights = np.ones(len(places))
    for axis, offset in zip(AXES, offsets, strict=True):
        along = (x * axis[0] + y * axis[1] + z * axis[2]) * cells + offset
        share = along - np.floor(along)
        weights = np.minimum(weights, np.minimum(share, 1 - share) / MARGIN)
    return weights
