"""Threads over rows."""

from __future__ import annotations

import os

import numpy as np
import pytest

from pdflow import parallel
from pdflow.parallel import available_cores, run_in_threads


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_every_row_is_visited_once(count: int, cores: int, monkeypatch) -> None:
    monkeypatch.setattr(parallel, "available_cores", lambda: cores)
    visits = np.zeros(count, int)

    def visit(start: int, stop: int, step: int) -> None:
        visits[start:stop] += step

    run_in_threads(visit, count, 1, grain=2)
    assert (visits == 1).all()


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch) -> None:
    monkeypatch.setattr(parallel, "available_cores", lambda: 2)

    def fail(start: int, stop: int) -> None:
        raise ValueError(f"{start} to {stop}")

    with pytest.raises(ValueError, match="to"):
        run_in_threads(fail, 100, grain=1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_cores_taken_from_the_process_do_not_count() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert available_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
