"""What the worker does, in this process."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from pdflow import PointCloud, read, write
from pdflow.app import tasks, worker
from pdflow.app.tasks import Task, run_task

OPTIONS = {"model": "pdflow-fast", "device": "cpu", "iterations": 1}


@pytest.fixture
def task(tmp_path):
    """A function that makes tasks for a noisy plane of 300 points."""
    points = np.random.default_rng(0).random((300, 3)) * [1, 1, 0.02]
    write(tmp_path / "source.ply", PointCloud(points, {"intensity": np.arange(300)}))
    (tmp_path / "job").mkdir()

    def make(kind, **options):
        place = {"source": tmp_path / "source.ply", "folder": tmp_path / "job"}
        return Task(kind=kind, name="my scan.ply", result_name="r.ply", drop=False,
                    options=options, **place)  # fmt: skip

    return make


def test_large_clouds_are_shown_thinned_and_denoised_whole(task, monkeypatch):
    monkeypatch.setattr(tasks, "SHOWN_POINTS", 50)
    monkeypatch.setattr(tasks, "ESTIMATE_POINTS", 100)
    facts = run_task(task("open"), lambda step, share: None)
    assert (facts["points"], facts["shown"]) == (300, 50)
    denoise = task("denoise", **OPTIONS)
    report = run_task(denoise, lambda step, share: None)
    assert report["points_out"] == 300
    clean = read(denoise.result)
    assert len(clean) == 300
    np.testing.assert_array_equal(clean.attributes["intensity"], np.arange(300))


def test_progress_goes_up_and_names_its_steps(task):
    said = []
    run_task(task("denoise", **OPTIONS), lambda step, share: said.append((step, share)))
    shares = [share for _, share in said]
    assert shares == sorted(shares)
    assert said[0] == ("reading", 0.0)
    assert said[-1] == ("writing", 1.0)


def answers(words):
    out = io.StringIO()
    worker._answer(words, out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def described(task):
    return {**vars(task), "source": str(task.source), "folder": str(task.folder)}


def test_the_worker_answers_in_lines_of_json(task):
    *steps, last = answers(described(task("open")))
    assert steps[0] == {"step": "reading", "share": 0.0}
    assert last["done"]["points"] == 300
    assert last["warnings"] == []


def test_errors_name_the_file_as_its_owner_does_and_bugs_say_so(task, monkeypatch):
    opening = task("open")
    opening.source.write_text("ply")
    tasks._read.cache_clear()
    (_, last) = answers(described(opening))
    assert last["error"].startswith("my scan.ply")
    assert str(opening.source) not in last["error"]

    def broken(*_):
        raise ZeroDivisionError(f"in {opening.source}")

    monkeypatch.setattr(tasks, "_read", broken)
    (_, last) = answers(described(opening))
    assert last["error"].startswith("ZeroDivisionError: in my scan.ply; this is a bug in pdflow")
    monkeypatch.setattr(tasks, "_read", lambda *_: (_ for _ in ()).throw(MemoryError))
    (_, last) = answers(described(opening))
    assert "more memory" in last["error"]


def test_a_full_disk_is_a_sentence_and_no_bug(task):
    resource = pytest.importorskip("resource", reason="needs POSIX: limits of processes")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, hard))
    try:
        for kind, options in (("open", {}), ("denoise", OPTIONS)):
            last = answers(described(task(kind, **options)))[-1]
            assert "could not be written" in last["error"]
            assert "bug" not in last["error"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
