"""No command harms a file: a full disk, a kill and a lost cache leave what was there.

Every command that writes is run on a disk that takes no more than LIMIT bytes in a file, and killed
at the moment when its output is complete but not yet in place.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, write
from pdflow.cli.main import COMMANDS
from pdflow.config import FlowConfig
from pdflow.model import PDFlow
from pdflow.weights import save_model

resource = pytest.importorskip("resource", reason="needs POSIX: limits of processes")

Run = Callable[..., Any]

LIMIT = 40
"""Bytes; every output is larger."""

OLD = b"what was there before"

RECIPE = """
[model]
edge_neighbours = [0]
augment_dims = 5
condition_neighbours = 4
patch_points = 32
hidden = 8
filter = "fbm"
masked_dims = 2
[data]
seeds = 8
[loss]
matching = "paired"
[optim]
batch = 2
steps = 2
[validation]
every = 0
"""

WORDS = {
    "denoise": "denoise scan.ply -o out.ply --iterations 1 --overwrite",
    "convert": "convert scan.ply out.laz",
    "noise": "noise scan.ply -o out.ply --level 0.01",
    "sample": "sample box.off -o out.ply --points 100",
    "view": "view scan.ply -o out.html",
    "evaluate": "evaluate scan.ply --clean scan.ply --csv out.csv",
    "latent": "latent scan.ply -o out.png --model tiny.safetensors",
    "export": "export -o out.pt2 --model tiny.safetensors",
    "train": "train --data shapes --recipe small.toml -o out",
}
"""Command -> a line that writes out.* or, for train, a folder."""

ELSEWHERE = {
    "info": "writes nothing",
    "app": "tests/app/test_safety.py",
    "import-weights": "writes like export, with save_model: tests/test_weights.py",
    "bench": "appends records: tests/bench/test_runs.py",
}
"""Commands that are not run here, and why."""


@pytest.fixture
def here(tmp_path: Path, box: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with everything that the lines name."""
    points = np.random.default_rng(0).random((300, 3)) * [1, 1, 0.02]
    write(tmp_path / "scan.ply", PointCloud(points))
    (tmp_path / "shapes").mkdir()
    write(tmp_path / "shapes" / "plane.ply", PointCloud(points))
    (tmp_path / "small.toml").write_text(RECIPE)
    config = FlowConfig((0,), 0, hidden=8, filter="fbm", masked_dims=1, patch_points=32)
    save_model(tmp_path / "tiny.safetensors", PDFlow(config), {})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def output(line: str) -> Path | None:
    """The file that a line writes, with something in it; None for a folder."""
    path = Path(next(word for word in line.split() if word.startswith("out")))
    if not path.suffix:
        return None
    path.write_bytes(OLD)
    return path


def state(folder: Path) -> dict[str, bytes]:
    """All files of a folder with their contents, and those of training runs left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] != "out"
    }


def test_every_command_is_here_or_elsewhere() -> None:
    names = {command.NAME for command in COMMANDS}
    assert names == {*WORDS, *ELSEWHERE}


@pytest.mark.parametrize("command", WORDS)
def test_a_full_disk_is_one_sentence_and_harms_nothing(
    command: str, here: Path, pdflow: Run
) -> None:
    line = WORDS[command]
    output(line)
    before = state(here)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    try:
        done = pdflow(*line.split())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.code == 2, done.err
    errors = [text for text in done.err.splitlines() if text.startswith("error: ")]
    assert len(errors) == 1, done.err
    assert "Traceback" not in done.err
    assert state(here) == before
    if command == "train":
        assert not list((here / "out").rglob("*.safetensors"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX: fork and SIGKILL")
@pytest.mark.parametrize("command", WORDS)
def test_a_kill_before_the_end_leaves_the_old_file(command: str, here: Path, pdflow: Run) -> None:
    line = WORDS[command]
    path = output(line)
    before = state(here)
    child = os.fork()
    if child == 0:
        os.fsync = lambda number: os.kill(os.getpid(), signal.SIGKILL)  # the last step but one
        pdflow(*line.split())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    after = state(here)
    assert {name: after[name] for name in before} == before
    assert all(".pdflow-" in name for name in after.keys() - before.keys())
    done = pdflow(*line.split())
    assert done.code == 0, done.err
    assert path is None or path.read_bytes() != OLD


@pytest.mark.parametrize("command", ["convert", "denoise"])
def test_no_cache_is_needed(command: str, here: Path, pdflow: Run, monkeypatch: Any) -> None:
    from pdflow.compiled import cache

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cache._CheckedFiles, "_load", refuse)
    monkeypatch.setattr(cache._CheckedFiles, "_save", refuse)
    output(WORDS[command])
    assert pdflow(*WORDS[command].split()).code == 0
