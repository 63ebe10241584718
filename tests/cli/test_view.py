from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from pdflow import write


@pytest.fixture
def moved(tmp_path, cloud):
    path = tmp_path / "moved.ply"
    write(path, cloud.with_points(cloud.points + 0.001))
    return path


def test_a_page_is_one_file(pdflow, scan, moved, tmp_path):
    page = tmp_path / "page.html"
    outcome = pdflow("view", scan, moved, "--clean", scan, "-o", page)
    assert (outcome.code, outcome.err) == (0, "")
    assert str(page) in outcome.out
    assert "<title>scan.ply and moved.ply</title>" in page.read_text()


def test_large_clouds_are_thinned_and_said_to_be(pdflow, scan, tmp_path):
    outcome = pdflow("view", scan, "--points", "50", "-o", tmp_path / "page.html")
    assert outcome.code == 0
    assert f"{scan}: 50 of 200 points are shown" in outcome.err


def test_points_that_are_not_finite_are_an_error_or_dropped(pdflow, tmp_path):
    (tmp_path / "holes.xyz").write_text("0 0 0\nnan 0 0\n1 0 0\n")
    words = ("view", tmp_path / "holes.xyz", "-o", tmp_path / "page.html")
    outcome = pdflow(*words)
    assert (outcome.code, "row 1" in outcome.err) == (2, True)
    assert not (tmp_path / "page.html").exists()
    outcome = pdflow(*words, "--drop-nonfinite")
    assert (outcome.code, "1 NaN or infinite dropped" in outcome.err) == (0, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["missing.ply"], "does not exist"),
        (["{scan}", "-o", "page.png"], "ends in .html"),
        (["{scan}", "-o", "{folder}/no/page.html"], "make it first"),
        (["{scan}", "--clean", "missing.ply"], "does not exist"),
        (["{scan}", "--points", "0"], "--points"),
        ([], "IN"),
    ],
)
def test_errors_are_one_sentence(pdflow, scan, tmp_path, words, sentence):
    outcome = pdflow("view", *(word.format(scan=scan, folder=tmp_path) for word in words))
    assert outcome.code == 2
    assert sentence in outcome.err
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1


def test_without_output_the_page_is_served_until_ctrl_c(scan):
    # A process in the background of a script inherits that SIGINT is ignored.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from pdflow.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", code, "view", str(scan), "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        url = process.stdout.readline().split()[0]
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert b"scan.ply" in answer.read()
        os.kill(process.pid, signal.SIGINT)
        err = process.communicate(timeout=30)[1]
    finally:
        process.kill()
    assert (process.returncode, err.strip()) == (0, "ended.")


def test_the_browser_is_opened_unless_told_otherwise(pdflow, scan, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(
        "pdflow.viewer.serve.PageServer.serve_forever",
        lambda server: (_ for _ in ()).throw(KeyboardInterrupt),
    )
    outcome = pdflow("view", scan)
    assert outcome.code == 0
    assert opened == [outcome.out.split()[0]]
    pdflow("view", scan, "--no-open")
    assert len(opened) == 1
