"""Threads over rows: how many cores there are, and a loop that uses them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np


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
