"""Threads over rows."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from pdflow import parallel
from pdflow.parallel import (
    Deferred,
    available_cores,
    fill_rows,
    run_in_threads,
    stable_argsort,
)


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


def test_a_kernel_may_use_threads_itself() -> None:
    seen = np.zeros((8, 8), int)

    def inner(start: int, stop: int, row: int) -> None:
        seen[row, start:stop] += 1

    def outer(start: int, stop: int) -> None:
        for row in range(start, stop):
            run_in_threads(inner, 8, row, grain=1)

    run_in_threads(outer, 8, grain=1)
    assert (seen == 1).all()


def test_an_error_waits_for_the_other_ranges() -> None:
    running = []

    def slow(start: int, stop: int) -> None:
        if start == 0:
            raise ValueError("first")
        running.append(start)
        time.sleep(0.02)
        running.remove(start)

    for _ in range(3):
        with pytest.raises(ValueError, match="first"):
            run_in_threads(slow, 64, grain=1)
        assert not running


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    total = fill_rows(np.empty(200_000), lambda rows: np.ones(rows.stop - rows.start)).sum()
    with Deferred(lambda: 1) as later:
        later.begin()
    child = os.fork()
    if child == 0:
        again = fill_rows(np.empty(200_000), lambda rows: np.ones(rows.stop - rows.start)).sum()
        with Deferred(lambda: 2) as later:
            later.begin()
            done = later.result()
        os._exit(0 if (again, done) == (total, 2) else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("kind", ["floats", "few different", "one value", "sorted"])
def test_keys_are_sorted_as_by_numpy(kind: str) -> None:
    rng = np.random.default_rng(0)
    count = 150_000
    keys = {
        "floats": rng.normal(size=count),
        "few different": rng.integers(0, 40, count),
        "one value": np.zeros(count),
        "sorted": np.arange(count),
    }[kind]
    np.testing.assert_array_equal(stable_argsort(keys), np.argsort(keys, kind="stable"))


def test_a_deferred_call_runs_once_and_beside_its_caller() -> None:
    threads: list[int] = []
    with Deferred(lambda: threads.append(threading.get_ident())) as later:
        assert not threads
        later.begin()
        later.begin()
        later.result()
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


def test_deferred_calls_follow_each_other_in_one_thread() -> None:
    threads: list[int] = []
    calls = [Deferred(lambda: threads.append(threading.get_ident())) for _ in range(3)]
    for call in calls:
        call.begin()
    for call in calls:
        call.result()
    assert len(threads) == 3
    assert len(set(threads)) == 1


def test_a_deferred_call_that_was_not_begun_runs_once_in_the_thread_that_asks() -> None:
    threads: list[int] = []
    with Deferred(lambda: threads.append(threading.get_ident())) as later:
        later.result()
        later.begin()
        later.result()
    assert threads == [threading.get_ident()]


def test_a_deferred_call_that_fails_says_so_each_time() -> None:
    def fail() -> None:
        raise ValueError("no good")

    for begun in (False, True):
        with Deferred(fail) as later:
            if begun:
                later.begin()
            for _ in range(2):
                with pytest.raises(ValueError, match="no good"):
                    later.result()


def test_leaving_waits_for_a_deferred_call() -> None:
    done: list[bool] = []

    def work() -> None:
        time.sleep(0.05)
        done.append(True)

    with pytest.raises(ValueError, match="no good"), Deferred(work) as later:  # noqa: PT012
        later.begin()
        raise ValueError("no good")
    assert done
