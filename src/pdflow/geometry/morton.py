"""The Morton curve: an order of points that keeps neighbours in space close together."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray

_BITS = 21  # three of them fill a 63-bit key


def morton_keys(points: FloatArray) -> IntArray:
    """(M,): position of each point (M, 3) on a curve through a grid over the bounding box."""
    low = points.min(axis=0)
    extent = float((points.max(axis=0) - low).max()) or 1.0
    cells = ((points - low) / extent * (2**_BITS - 1)).astype(np.uint64)
    keys = np.zeros(len(points), dtype=np.uint64)
    for axis in range(3):
        keys |= _spread(cells[:, axis]) << np.uint64(axis)
    return keys.astype(np.int64)


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
