"""The Morton curve: an order of points that keeps neighbours in space close together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray, bounding_box
from pdflow.parallel import run_in_threads

BITS = 21
"""Bits of a key along each axis: three times as many fill 63 bits."""


@dataclass(frozen=True)
class Grid:
    """A cube of 2^BITS cells along each axis, with a Morton curve through all of them.

    low     (3,) its lowest corner
    extent  length of its edges
    """

    low: FloatArray
    extent: float

    @staticmethod
    def over(low: FloatArray, high: FloatArray) -> Grid:
        """The grid over a bounding box, given by its corners (3,)."""
        return Grid(low, float((high - low).max()) or 1.0)

    def keys(self, points: FloatArray) -> IntArray:
        """(M,): position on the curve of each point (M, 3) of the cube."""
        keys = np.empty(len(points), np.int64)
        run_in_threads(_fill_keys, len(points), points, self.low, self.extent, keys)
        return keys


def morton_keys(points: FloatArray) -> IntArray:
    """(M,): position of each point (M, 3) on a curve through a grid over the bounding box."""
    return Grid.over(*bounding_box(points)).keys(points)


@compiled
def _fill_keys(
    start: int, stop: int, points: FloatArray, low: FloatArray, extent: float, keys: IntArray
) -> None:
    """Write the keys of the points `start` to `stop - 1`."""
    last = 2**BITS - 1
    for row in range(start, stop):
        key = np.int64(0)
        for axis in range(3):
            key |= _spread(np.int64((points[row, axis] - low[axis]) / extent * last)) << axis
        keys[row] = key


@compiled
def _spread(bits: int) -> int:
    """Insert two zero bits after each of 21 bits."""
    bits = (bits | (bits << 32)) & 0x1F00000000FFFF
    bits = (bits | (bits << 16)) & 0x1F0000FF0000FF
    bits = (bits | (bits << 8)) & 0x100F00F00F00F00F
    bits = (bits | (bits << 4)) & 0x10C30C30C30C30C3
    return (bits | (bits << 2)) & 0x1249249249249249
