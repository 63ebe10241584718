"""Remove duplicate points."""

from __future__ import annotations

import numpy as np

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.parallel import run_in_threads

_FACTORS = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB)
"""Odd numbers without a pattern in their bits: multiplying by them spreads rows over a table."""

_SHARE_BITS = 4
_SHARES = 1 << _SHARE_BITS
"""Parts of the table, which threads fill in parallel."""

_SMALL_CLOUD = 200_000
"""Points below which a second thread costs more than it brings."""


def distinct(points: FloatArray) -> tuple[FloatArray, IntArray]:
    """The distinct points (U, 3) of a cloud (M, 3), and the row there of each of its points (M,).

    Each point stands where it first occurs.

    >>> points, place = distinct(np.array([[1.0, 0, 0], [0, 0, 0], [1, 0, 0]]))
    >>> points.tolist(), place.tolist()
    ([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [0, 1, 0])
    """
    # Adding 0 turns -0 into 0, so that equal numbers have equal bits.
    bits = (np.ascontiguousarray(points) + 0.0).view(np.int64)
    first = np.empty(len(bits), np.int64)
    run_in_threads(
        _fill_shares, _SHARES, bits, first, grain=_SHARES if len(bits) < _SMALL_CLOUD else 1
    )
    is_new = first == np.arange(len(points))
    if is_new.all():
        return points.copy(), first
    return points[is_new], (np.cumsum(is_new) - 1)[first]


@compiled
def _fill_shares(start: int, stop: int, bits: IntArray, first: IntArray) -> None:
    """Fill `first` (M,) for all rows (M, 3) whose hash is in the shares `start` to `stop - 1`.

    first  the first of all rows that is equal to a row

    Equal rows have equal hashes, so shares are independent. The table of a share is at most half
    full; a row whose place is taken moves on to the next.
    """
    for share in range(start, stop):
        count = 0
        for row in range(len(bits)):
            count += _hash(bits, row) & (_SHARES - 1) == share
        size = 2
        while size < 2 * count:
            size *= 2
        table = np.full(size, -1)
        for row in range(len(bits)):
            mixed = _hash(bits, row)
            if mixed & (_SHARES - 1) != share:
                continue
            place = (mixed >> _SHARE_BITS) & (size - 1)
            while True:
                other = table[place]
                if other < 0:
                    table[place] = first[row] = row
                    break
                if (
                    bits[other, 0] == bits[row, 0]
                    and bits[other, 1] == bits[row, 1]
                    and bits[other, 2] == bits[row, 2]
                ):
                    first[row] = other
                    break
                place = (place + 1) & (size - 1)


@compiled
def _hash(bits: IntArray, row: int) -> int:
    x, y, z = bits[row, 0], bits[row, 1], bits[row, 2]
    mixed = (x * _FACTORS[0]) ^ (y * _FACTORS[1]) ^ (z * _FACTORS[2])
    mixed = (mixed ^ (mixed >> 32)) * _FACTORS[0]
    mixed ^= mixed >> 29
    return mixed  # type: ignore[no-any-return]
