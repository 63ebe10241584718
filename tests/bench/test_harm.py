"""A full disk and a kill harm no results of the bench."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pdflow.bench.records import Store

resource = pytest.importorskip("resource", reason="needs POSIX: limits of processes")

ONE_CELL = ("--points", "10000", "--levels", "0.02")
Run = Callable[..., Any]


@contextmanager
def full_disk() -> Iterator[None]:
    """No file takes more than a few bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_sentence_and_the_run_goes_on(
    bench: Run, score_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # git would be killed by the limit on files, and leave its lock behind in the repository.
    monkeypatch.setenv("PDFLOW_COMMIT", "tested")
    words = ("puset", "--data", score_data, "-o", tmp_path, "--methods", "noisy", *ONE_CELL)
    with full_disk():
        done = bench(*words)
    assert done.code == 2
    assert [line[:7] for line in done.err.splitlines()].count("error: ") == 1, done.err
    assert "Traceback" not in done.err
    assert bench(*words).code == 0
    assert len(Store.open(tmp_path / "puset.jsonl").records) == 2
    page = tmp_path / "results.md"
    page.write_text("what was there before")
    with full_disk():
        done = bench("report", "-o", tmp_path, "--docs", page)
    assert done.code == 2
    assert page.read_text() == "what was there before"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX: fork and SIGKILL")
def test_a_kill_while_a_damaged_line_is_removed_keeps_the_others(
    bench: Run, score_data: Path, tmp_path: Path
) -> None:
    path = tmp_path / "puset.jsonl"
    words = ("puset", "--data", score_data, "-o", tmp_path, "--methods", "noisy", *ONE_CELL)
    assert bench(*words).code == 0
    path.write_bytes(path.read_bytes() + b'{"block": "half a li')
    before = path.read_bytes()
    child = os.fork()
    if child == 0:
        os.fsync = lambda number: os.kill(os.getpid(), signal.SIGKILL)
        Store.open(path)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert path.read_bytes() == before
    assert len(Store.open(path).records) == 2
