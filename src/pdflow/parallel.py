"""Threads over rows: how many cores there are, and a loop that uses them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = TypeVar("Array", bound=NDArray[Any])


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
    thread pools they may be started from many threads at once and survive a fork.
    """
    workers = max(1, min(available_cores(), count // grain))
    if workers == 1:
        kernel(0, count, *arguments)
        return
    # More ranges than threads, because some rows take longer than others.
    edges = np.linspace(0, count, 4 * workers + 1).astype(int)
    with ThreadPoolExecutor(workers) as pool:
        jobs = [pool.submit(kernel, int(a), int(b), *arguments) for a, b in pairwise(edges)]
        for job in jobs:
            job.result()


def fill_rows(
    result: Array, function: Callable[[slice], NDArray[Any]], part: int = 16_384
) -> Array:
    """Fill `result` with what `function` makes of each part of its rows, on all cores.

    function  from a slice of rows to their values, made of operations that release the GIL, such
              as those of numpy on arrays
    part      rows of a part: as many as fit into the cache

    >>> fill_rows(np.empty(3), lambda rows: np.arange(3)[rows] ** 2).tolist()
    [0.0, 1.0, 4.0]
    """

    def fill(start: int, stop: int) -> None:
        for first in range(start * part, min(stop * part, len(result)), part):
            rows = slice(first, min(first + part, len(result)))
            result[rows] = function(rows)

    run_in_threads(fill, -(-len(result) // part), grain=1)
    return result
