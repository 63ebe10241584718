"""The nearest of many candidates: pairs of squared distances and rows, in exact order.

Distances are compared together with rows, so that the lower row wins ties.
"""

from __future__ import annotations

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray

_FEW = 24
"""So many pairs are sorted fastest by insertion."""


@compiled
def before(sq_a: float, row_a: int, sq_b: float, row_b: int) -> bool:
    """Whether one pair is nearer than another."""
    return sq_a < sq_b or (sq_a == sq_b and row_a < row_b)


@compiled
def insert(best_sq: FloatArray, best_row: IntArray, sq: float, row: int) -> None:
    """Insert (`sq`, `row`) into an ascending list, whose last place is dropped."""
    place = len(best_sq) - 1
    while place > 0 and before(sq, row, best_sq[place - 1], best_row[place - 1]):
        best_sq[place], best_row[place] = best_sq[place - 1], best_row[place - 1]
        place -= 1
    best_sq[place], best_row[place] = sq, row


@compiled
def select_nearest(sq: FloatArray, row: IntArray, k: int) -> None:
    """Reorder pairs (n,), n > k, so that the k nearest come first, in any order."""
    low, high = 0, len(sq)
    while high - low > 1:
        pivot = _median_place(sq, row, low, (low + high) // 2, high - 1)
        pivot_sq, pivot_row = sq[pivot], row[pivot]
        border = low
        for place in range(low, high):
            # Swapping always, even where nothing moves, avoids a branch that is hard to predict.
            own_sq, own_row = sq[place], row[place]
            sq[place], row[place] = sq[border], row[border]
            sq[border], row[border] = own_sq, own_row
            border += before(own_sq, own_row, pivot_sq, pivot_row)
        if border == k:
            return
        if k < border:
            high = border
        elif border > low:
            low = border
        else:
            # The pivot is the nearest: set it and its equals aside, and go on.
            for place in range(low, high):
                own_sq, own_row = sq[place], row[place]
                sq[place], row[place] = sq[border], row[border]
                sq[border], row[border] = own_sq, own_row
                border += own_sq == pivot_sq and own_row == pivot_row
            if k <= border:
                return
            low = border


@compiled
def farthest_of(sq: FloatArray, row: IntArray) -> int:
    """The place of the farthest of some pairs (n,)."""
    worst = 0
    for place in range(1, len(sq)):
        if before(sq[worst], row[worst], sq[place], row[place]):
            worst = place
    return worst


@compiled
def sort_pairs(
    sq: FloatArray, row: IntArray, ends: IntArray, sorted_sq: FloatArray, sorted_row: IntArray
) -> None:
    """Write pairs (n,) in ascending order.

    ends  (n + 1,) memory for the work

    On a surface, squared distances are nearly uniform up to the largest. So they are distributed
    over as many buckets as there are pairs, and few share one.
    """
    count = len(sq)
    if count == 0:
        return
    largest = sq.max()
    # Where all are equal, or too large for a number, one bucket holds them all.
    last = float(count - 1) if 0.0 < largest < 1e300 else 0.0
    unit = largest if last > 0.0 else 1.0
    ends[: count + 1] = 0
    for place in range(count):
        ends[_bucket(sq[place], unit, last) + 1] += 1
    for bucket in range(count):
        ends[bucket + 1] += ends[bucket]
    for place in range(count):
        bucket = _bucket(sq[place], unit, last)
        sorted_sq[ends[bucket]], sorted_row[ends[bucket]] = sq[place], row[place]
        ends[bucket] += 1
    first = 0
    for bucket in range(count):
        stop = ends[bucket]
        if stop - first > 1:
            _sort_some(sorted_sq[first:stop], sorted_row[first:stop])
        first = stop


@compiled
def _bucket(sq: float, unit: float, last: float) -> int:
    return int(sq / unit * last) if last > 0.0 else 0


@compiled
def _sort_some(sq: FloatArray, row: IntArray) -> None:
    """Sort pairs (n,) in place."""
    count = len(sq)
    if count <= _FEW:
        for end in range(2, count + 1):
            insert(sq[:end], row[:end], sq[end - 1], row[end - 1])
        return
    for place in range(count // 2 - 1, -1, -1):
        _sift(sq, row, place, count, sq[place], row[place])
    for end in range(count - 1, 0, -1):
        sq_last, row_last = sq[end], row[end]
        sq[end], row[end] = sq[0], row[0]
        _sift(sq, row, 0, end, sq_last, row_last)


@compiled
def _sift(
    heap_sq: FloatArray, heap_row: IntArray, place: int, size: int, sq: float, row: int
) -> None:
    """Put (`sq`, `row`) in a place of a heap of `size` pairs, farthest on top, or below it."""
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and before(
            heap_sq[child], heap_row[child], heap_sq[child + 1], heap_row[child + 1]
        ):
            child += 1
        if not before(sq, row, heap_sq[child], heap_row[child]):
            break
        heap_sq[place], heap_row[place] = heap_sq[child], heap_row[child]
        place = child
    heap_sq[place], heap_row[place] = sq, row


@compiled
def _median_place(sq: FloatArray, row: IntArray, a: int, b: int, c: int) -> int:
    """The place, of three, of the pair between the other two."""
    if before(sq[b], row[b], sq[a], row[a]):
        a, b = b, a
    if before(sq[c], row[c], sq[b], row[b]):
        b = a if before(sq[c], row[c], sq[a], row[a]) else c
    return b
