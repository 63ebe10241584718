"""Threads over rows: how many cores there are, and a loop that uses them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = TypeVar("Array", bound=NDArray[Any])
Result = TypeVar("Result")

_FEWEST_ROWS, _MOST_ROWS = 4096, 65_536
"""Rows of a part that one thread fills at a time."""

_FEW_KEYS = 65_536
"""Keys that one thread sorts faster than several."""

_RANGES = 128
"""Ranges of keys that are sorted in parallel; a byte numbers them."""


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_in_threads(
    kernel: Callable[..., Any], count: int, *arguments: Any, grain: int = 2048
) -> None:
    """Call `kernel(start, stop, *arguments)` on disjoint ranges that cover `count` rows.

    grain  rows below which a second thread costs more than it brings

    These are plain Python threads, meant for loops compiled without the GIL: unlike numba's own
    thread pools they may be used from many threads at once, and a forked process makes new ones.
    A kernel that calls this function itself goes on in its own thread.
    """
    workers = max(1, min(available_cores() // _WORKER.share, count // grain))
    if workers == 1 or _WORKER.is_one:
        kernel(0, count, *arguments)
        return
    # More ranges than threads, because some rows take longer than others.
    edges = np.linspace(0, count, 4 * workers + 1).astype(int).tolist()
    ranges = iter(list(pairwise(edges)))  # threads may share the iterator of a list

    def work() -> None:
        try:
            for start, stop in ranges:
                kernel(start, stop, *arguments)
        finally:
            list(ranges)  # after an error nothing is begun

    pool = thread_pool(available_cores())
    jobs = [pool.submit(work) for _ in range(workers - 1)]
    try:
        _WORKER.is_one = True
        work()
    finally:
        _WORKER.is_one = False
        # Threads that are still busy elsewhere need not come. After an error nothing may go on
        # behind the caller's back.
        started = [job for job in jobs if not job.cancel()]
        wait(started)
    for job in started:
        job.result()


class _Worker(threading.local):
    """Whether the current thread belongs to the pool; and by what its share of cores is divided."""

    is_one = False
    share = 1


_WORKER = _Worker()


@cache
def thread_pool(size: int) -> ThreadPoolExecutor:
    """The threads of this process that loops share, in which `run_in_threads` starts no others.

    Starting them for every loop would cost more than many loops, and memory that a thread gave
    back serves no other thread.
    """
    return ThreadPoolExecutor(size, initializer=lambda: setattr(_WORKER, "is_one", True))


@cache
def _thread_beside() -> ThreadPoolExecutor:
    """The thread of this process for calls beside others, which take half of the cores."""
    return ThreadPoolExecutor(1, initializer=lambda: setattr(_WORKER, "share", 2))


def is_forked() -> bool:
    """Whether this process is a fork: threads of its parent, which libraries wait for, are gone."""
    return _FORKED


_FORKED = False


def _begin_forked_process() -> None:
    global _FORKED
    _FORKED = True
    thread_pool.cache_clear()
    _thread_beside.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_forked_process)


class Deferred(Generic[Result]):
    """A call that waits until it is begun, and then runs beside its caller, after those before it.

    It fills the time in which cores wait for another device, and takes at most half of the cores.
    Leaving the context waits for it. It must not wait for another one.

    >>> with Deferred(lambda: sum(range(4))) as later:
    ...     later.begin()
    ...     later.result()
    6
    """

    def __init__(self, function: Callable[[], Result]) -> None:
        self._function = function
        self._job: Future[Result] | None = None

    def begin(self) -> None:
        """Start it, unless it was started before."""
        if self._job is None:
            self._job = _thread_beside().submit(self._function)

    def result(self) -> Result:
        """What the call returns; if it was not begun, it runs here, on all cores."""
        if self._job is not None:
            return self._job.result()
        result = self._function()
        self._job = Future()
        self._job.set_result(result)
        return result

    def __enter__(self) -> Deferred[Result]:
        return self

    def __exit__(self, *error: object) -> None:
        if self._job is not None:
            wait([self._job])


def fill_rows(
    result: Array, function: Callable[[slice], NDArray[Any]], part: int | None = None
) -> Array:
    """Fill `result` with what `function` makes of each part of its rows, on all cores.

    function  from a slice of rows to their values, made of operations that release the GIL, such
              as those of numpy on arrays
    part      rows of a part; None: as few parts as keep all cores busy, because a thread waits for
              the GIL after each operation, which takes about 20 us with 16 threads

    >>> fill_rows(np.empty(3), lambda rows: np.arange(3)[rows] ** 2).tolist()
    [0.0, 1.0, 4.0]
    """

    even = -(-len(result) // (2 * available_cores()))
    rows = part or min(max(even, _FEWEST_ROWS), _MOST_ROWS)

    def fill(start: int, stop: int) -> None:
        for first in range(start * rows, min(stop * rows, len(result)), rows):
            here = slice(first, min(first + rows, len(result)))
            result[here] = function(here)

    run_in_threads(fill, -(-len(result) // rows), grain=1)
    return result


def stable_argsort(keys: NDArray[Any]) -> NDArray[np.int64]:
    """`np.argsort(keys, kind="stable")` of keys (M,) without NaN, on all cores.

    Small whole numbers take numpy's radix sort. Other keys are divided into ranges of about as many
    keys each, and threads sort one range each.

    >>> stable_argsort(np.array([2, 1, 2, 0])).tolist()
    [3, 1, 0, 2]
    """
    if len(keys) < _FEW_KEYS:
        return np.argsort(keys, kind="stable")
    if keys.dtype.kind == "i" and keys.min() >= 0 and keys.max() < 2**16:
        return np.argsort(keys.astype(np.uint16), kind="stable")
    borders = np.sort(keys[:: len(keys) // (64 * _RANGES)])[64::64]
    ranges = fill_rows(
        np.empty(len(keys), np.uint8), lambda part: np.searchsorted(borders, keys[part], "right")
    )
    order = np.argsort(ranges, kind="stable")  # one byte each: the fast radix sort
    ends = [0, *np.cumsum(np.bincount(ranges, minlength=len(borders) + 1)).tolist()]

    def sort(start: int, stop: int) -> None:
        for first, last in pairwise(ends[start : stop + 1]):
            some = order[first:last]
            order[first:last] = some[np.argsort(keys[some], kind="stable")]

    run_in_threads(sort, len(ends) - 1, grain=1)
    return order
