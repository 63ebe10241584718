"""The app as a program sees it: what it answers, what it refuses, what it leaves behind."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from pdflow import PointCloud, TriangleMesh, write, write_mesh


def test_a_file_comes_back_as_the_command_line_would_write_it(app, scan, pdflow, quick, tmp_path):
    key = app.open(scan)
    facts = app.ask("GET", f"clouds/{key}")["facts"]
    assert (facts["points"], facts["dropped"]) == (600, 0)
    assert facts["noise"] == pytest.approx(0.01, rel=0.5)
    assert set(facts["attributes"]) >= {"intensity", "classification"}
    app.ask("POST", f"clouds/{key}/denoise", {"iterations": 1, "outliers": "keep"})
    state = app.wait(key)
    assert (state["error"], state["result"]["iterations"]) == ("", 1)
    response, body = app.request("GET", f"clouds/{key}/result")
    assert response.headers["Content-Disposition"] == 'attachment; filename="scan_denoised.las"'
    outcome = pdflow("denoise", scan, "-o", tmp_path / "clean.las", "--iterations", "1", *quick)
    assert outcome.code == 0
    assert body == (tmp_path / "clean.las").read_bytes()
    _, page = app.request("GET", f"clouds/{key}/page")
    assert page.startswith(b"<!doctype html>")


def test_options_change_the_result_and_bad_ones_are_a_sentence(app, scan):
    key = app.open(scan)
    options = {"mode": "resample", "iterations": 1, "noise": 0.01, "outliers": "remove"}
    app.ask("POST", f"clouds/{key}/denoise", options)
    before = app.wait(key)
    assert before["result"]["noise_before"] == pytest.approx(0.01)
    for bad in ({"mode": "magic"}, {"iterations": 0}, {"noise": "colour"}):
        app.ask("POST", f"clouds/{key}/denoise", bad)
        state = app.wait(key)
        assert state["state"] == "ready"
        assert state["error"].endswith(".")
        assert state["result"] == before["result"]  # what was there stays
    for body in (b"[", b"[]", b'{"model": "x"}', b'{"mode": [1]}', b'{"mode": true}', b"[" * 3000):
        response, answer = app.request("POST", f"clouds/{key}/denoise", body)
        assert response.status in (400, 413), answer


def test_a_broken_file_gives_the_sentence_of_the_command_line(app, pdflow, tmp_path, scan):
    broken = tmp_path / "broken.ply"
    broken.write_bytes(b"ply\nformat ascii 1.0\nelement vertex 3\nend_header\n")
    sentence = pdflow("denoise", broken, "-o", tmp_path / "x.ply").err
    key = app.ask("POST", "clouds?name=broken.ply", broken.read_bytes())["key"]
    state = app.wait(key)
    assert state["state"] == "failed"
    assert f"error: {state['error']}\n" == sentence.replace(f"{tmp_path}/", "")
    app.open(scan)  # the app goes on


def test_points_that_are_not_finite_are_an_error_or_dropped(app):
    text = "\n".join(["nan 0 0", *(f"{x} {y} 0" for x in range(9) for y in range(9))]).encode()
    key = app.ask("POST", "clouds?name=holes.xyz", text)["key"]
    assert "NaN or infinite" in app.wait(key)["error"]
    other = app.ask("POST", "clouds?name=holes.xyz&drop=1", text)["key"]
    assert app.wait(other)["facts"]["dropped"] == 1


def test_what_the_result_cannot_hold_is_named(app, tmp_path):
    vertices = np.random.default_rng(0).random((300, 3)) * [1, 1, 0.01]
    write_mesh(tmp_path / "a.ply", TriangleMesh(vertices, [[0, 1, 2], [1, 2, 3]]))
    key = app.open(tmp_path / "a.ply")
    app.ask("POST", f"clouds/{key}/denoise", {"mode": "resample", "iterations": 1})
    (words,) = app.wait(key)["warnings"]
    assert "face" in words


def test_a_running_job_is_cancelled_and_the_next_one_starts(app, tmp_path, scan):
    random = np.random.default_rng(0)
    write(tmp_path / "many.npy", PointCloud(random.random((30_000, 3)) * [1, 1, 0.05]))
    long = app.open(tmp_path / "many.npy")
    short = app.open(scan)
    app.ask("POST", f"clouds/{long}/denoise", {"iterations": 4})
    assert app.request("POST", f"clouds/{long}/denoise", b"{}")[0].status == 409
    app.ask("POST", f"clouds/{short}/denoise", {"iterations": 1})
    assert app.ask("GET", f"clouds/{short}")["ahead"] == 1
    while app.ask("GET", f"clouds/{long}")["step"] in ("waiting", "reading"):
        time.sleep(0.05)
    state = app.ask("POST", f"clouds/{long}/cancel")
    assert (state["state"], state["error"], state["result"]) == ("ready", "Cancelled.", None)
    assert app.wait(short)["result"]["points_out"] == 600


def test_a_waiting_job_is_cancelled(app, scan):
    keys = [app.ask("POST", f"clouds?name={scan.name}", scan.read_bytes())["key"] for _ in "abc"]
    app.ask("POST", f"clouds/{keys[2]}/cancel")
    assert app.wait(keys[2])["state"] == "failed"
    assert app.wait(keys[0])["state"] == app.wait(keys[1])["state"] == "ready"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_worker_that_crashes_is_a_sentence_and_the_app_goes_on(app, tmp_path, scan):
    random = np.random.default_rng(0)
    write(tmp_path / "many.npy", PointCloud(random.random((30_000, 3)) * [1, 1, 0.05]))
    key = app.open(tmp_path / "many.npy")
    app.ask("POST", f"clouds/{key}/denoise", {"iterations": 4})
    while app.ask("GET", f"clouds/{key}")["step"] in ("waiting", "reading"):
        time.sleep(0.05)
    (worker,) = app.workers()
    os.kill(worker, signal.SIGSEGV)
    state = app.wait(key)
    assert "ended unexpectedly (signal 11)" in state["error"]
    assert state["error"].startswith("many.npy: ")
    app.open(scan)
