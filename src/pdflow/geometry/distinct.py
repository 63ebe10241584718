"""Find points that are equal, or nearly so."""

from __future__ import annotations

import numpy as np

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.parallel import fill_rows, run_in_threads

_FACTORS = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB)
"""Odd numbers without a pattern in their bits: multiplying by them spreads rows over a table."""

_SHARE_BITS = 4
_SHARES = 1 << _SHARE_BITS
"""Parts of the table, which threads fill in parallel."""

_SMALL_CLOUD = 200_000
"""Points below which a second thread costs more than it brings."""

NEIGHBOURS, NEARLY = 12, 2e-3
"""Points are nearly equal if they are closer than NEARLY times the distance to the farthest of so
many neighbours: rounding brings them apart, sampling a surface hardly ever so close together."""

_PROBES = 256


def distinct(points: FloatArray) -> tuple[FloatArray, IntArray]:
    """The distinct points (U, 3) of a cloud (M, 3), and the row there of each of its points (M,).

    Each point stands where it first occurs.

    >>> points, place = distinct(np.array([[1.0, 0, 0], [0, 0, 0], [1, 0, 0]]))
    >>> points.tolist(), place.tolist()
    ([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [0, 1, 0])
    """
    # Adding 0 turns -0 into 0, so that equal numbers have equal bits.
    bits = fill_rows(np.empty(points.shape), lambda part: points[part] + 0.0).view(np.int64)
    first = np.empty(len(bits), np.int64)
    run_in_threads(
        _fill_shares, _SHARES, bits, first, grain=_SHARES if len(bits) < _SMALL_CLOUD else 1
    )
    is_new = first == np.arange(len(points))
    if is_new.all():
        return fill_rows(np.empty_like(points), lambda part: points[part]), first
    return points[is_new], (np.cumsum(is_new) - 1)[first]


def nearly_equal(search: NeighborSearch) -> IntArray:
    """(U,): for each of different points (U, 3) the first row that it is nearly equal to.

    Files that were merged after their coordinates were rounded hold each point twice. Such twins
    hide the noise: each point's nearest neighbour is itself.

    >>> points = np.random.default_rng(0).random((40, 3))
    >>> twins = nearly_equal(NeighborSearch(np.concatenate([points, points + 1e-9])))
    >>> bool((twins[40:] == np.arange(40)).all())
    True
    """
    count, first = len(search), np.arange(len(search))
    if count <= NEIGHBOURS + 1:
        return first
    points = search.points
    nearest = search.reduce_knn(2, lambda sq_distances, _: sq_distances[:, 1])
    probes = points[:: max(1, count // _PROBES)]
    sq_reach = search.knn(probes, NEIGHBOURS + 1)[0][:, -1]
    rows = np.flatnonzero(nearest <= NEARLY**2 * sq_reach.max())
    if not len(rows):
        return first
    sq_distances, near = search.knn(points[rows], NEIGHBOURS + 1)
    close = sq_distances <= NEARLY**2 * sq_distances[:, -1:]
    while True:
        before = first[rows]
        first[rows] = np.where(close, first[near], count).min(axis=1)
        if np.array_equal(before, first[rows]):
            return first


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
