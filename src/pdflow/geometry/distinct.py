"""Points that occur several times, once."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.compiled import compiled

_FACTORS = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB)
"""Odd numbers without a pattern in their bits: products with them spread rows over a table."""


def distinct(points: FloatArray) -> tuple[FloatArray, IntArray]:
    """The different points (U, 3) of a cloud (M, 3), and for each point its place there (M,).

    The first of equal points counts, and the order is kept.

    >>> points, place = distinct(np.array([[1.0, 0, 0], [0, 0, 0], [1, 0, 0]]))
    >>> points.tolist(), place.tolist()
    ([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [0, 1, 0])
    """
    # Adding 0 makes one number of 0 and -0; then equal numbers have equal bits.
    bits = (np.ascontiguousarray(points) + 0.0).view(np.int64)
    first = _first_equal(bits)
    is_new = first == np.arange(len(points))
    if is_new.all():
        return points.copy(), first
    return points[is_new], (np.cumsum(is_new) - 1)[first]


@compiled
def _first_equal(bits: IntArray) -> IntArray:
    """For each of the rows (M, 3) the first that is equal to it, by a table of hashes (M,).

    The table is at most half full, and a row that finds its place taken goes to the next ones.
    """
    size = 2
    while size < 2 * len(bits):
        size *= 2
    table = np.full(size, -1)
    first = np.empty(len(bits), np.int64)
    for row in range(len(bits)):
        x, y, z = bits[row, 0], bits[row, 1], bits[row, 2]
        mixed = (x * _FACTORS[0]) ^ (y * _FACTORS[1]) ^ (z * _FACTORS[2])
        mixed = (mixed ^ (mixed >> 32)) * _FACTORS[0]
        place = (mixed ^ (mixed >> 29)) & (size - 1)
        while True:
            other = table[place]
            if other < 0:
                table[place] = first[row] = row
                break
            if bits[other, 0] == x and bits[other, 1] == y and bits[other, 2] == z:
                first[row] = other
                break
            place = (place + 1) & (size - 1)
    return first
