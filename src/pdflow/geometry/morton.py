"""The Morton curve: an order of points that keeps neighbours in space close together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray, bounding_box
from pdflow.parallel import fill_rows

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

        def fill(part: slice) -> IntArray:
            last = 2**BITS - 1
            cells = ((points[part] - self.low) / self.extent * last).astype(np.uint64)
            keys = np.zeros(len(cells), dtype=np.uint64)
            for axis in range(3):
                keys |= _spread(cells[:, axis]) << np.uint64(axis)
            return keys.astype(np.int64)

        return fill_rows(np.empty(len(points), np.int64), fill)


def morton_keys(points: FloatArray) -> IntArray:
    """(M,): position of each point (M, 3) on a curve through a grid over the bounding box."""
    return Grid.over(*bounding_box(points)).keys(points)


def _spread(bits: np.ndarray) -> np.ndarray:
    """Insert two zero bits after each of 21 bits."""
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        bits = (bits | (bits << np.uint64(shift))) & np.uint64(mask)
    return bits
