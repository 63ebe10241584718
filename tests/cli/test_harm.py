"""No command harms a file: a full disk, a kill and a lost cache leave what was there.

Every command that writes is run on a disk that takes no more than LIMIT bytes in a file, and killed
at the moment when its output is complete but not yet in place.
"""

from __future__ import annotations

import operator
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pdflow import PointCloud, write
from pdflow.cli.main import COMMANDS
from pdflow.config import FlowConfig
from pdflow.model import PDFlow
from pdflow.weights import authors, save_model

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
    "import-weights": "import-weights tiny.safetensors -o out.safetensors",
    "denoise --plot": "denoise scan.ply -o out.laz --plot out.png --uncertainty --iterations 1",
    "denoise a.ply b.ply": "denoise scan.ply again.ply -o out.d/ --iterations 1 --displacement",
    "noise --plot": "noise scan.ply -o out.xyz --level 0.01 --plot out.pdf",
    "evaluate --plot": "evaluate scan.ply --clean scan.ply --plot out.png",
    "export ONNX": "export -o out.onnx --model tiny.safetensors",
}
"""Command, with what else it writes -> a line that writes out.* or a folder."""

ELSEWHERE = {
    "info": "writes nothing",
    "bench": "tests/bench/test_harm.py",
    "app": "tests/app/test_tasks.py, tests/app/test_safety.py",
}
"""Commands that are not run here, and why."""


TRACED: dict[str, Any] = {}
"""Function of torch -> what it made of the tiny network: tracing takes longer than all the rest."""


def traced_once(name: str, trace: Run) -> Run:
    """The function that traces, which does so in the first test only."""

    def call(*arguments: Any, **options: Any) -> Any:
        if name not in TRACED:
            TRACED[name] = trace(*arguments, **options)
        return TRACED[name]

    return call


@pytest.fixture
def here(tmp_path: Path, box: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with everything that the lines name."""
    points = np.random.default_rng(0).random((300, 3)) * [1, 1, 0.02]
    for name in ("scan.ply", "again.ply"):
        write(tmp_path / name, PointCloud(points))
    (tmp_path / "shapes").mkdir()
    write(tmp_path / "shapes" / "plane.ply", PointCloud(points))
    (tmp_path / "small.toml").write_text(RECIPE)
    config = FlowConfig((0,), 0, hidden=8, filter="fbm", masked_dims=1, patch_points=32)
    torch.manual_seed(0)
    save_model(tmp_path / "tiny.safetensors", PDFlow(config), {})
    for name in ("torch.export.export", "torch.onnx.export"):
        monkeypatch.setattr(name, traced_once(name, operator.attrgetter(name[6:])(torch)))
    monkeypatch.setattr(authors, "import_authors_weights", lambda tensors: PDFlow(config))
    # git would be killed by the limit on files, and leave its lock behind in the repository.
    monkeypatch.setenv("PDFLOW_COMMIT", "tested")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outputs(line: str) -> list[Path]:
    """The files that a line writes, with something in them; none for a folder."""
    words = [word for word in line.split() if word.startswith("out")]
    paths = [Path(word) for word in words if Path(word).suffix not in ("", ".d")]
    for path in paths:
        path.write_bytes(OLD)
    return paths


def state(folder: Path) -> dict[str, bytes]:
    """All files of a folder with their contents, and those of a training run left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] != "out"
    }


def test_every_command_is_here_or_elsewhere() -> None:
    names = {command.NAME for command in COMMANDS}
    assert names == {*(key.split()[0] for key in WORDS), *ELSEWHERE}


@pytest.mark.parametrize("command", WORDS)
def test_a_full_disk_is_one_sentence_and_harms_nothing(
    command: str, here: Path, pdflow: Run
) -> None:
    line = WORDS[command]
    outputs(line)
    before = state(here)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    try:
        done = pdflow(*line.split())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.code == 2, done.err
    errors = [text for text in done.err.splitlines() if text.startswith("error: ")]
    # Of several inputs each has its sentence, and one more sums up.
    assert len(errors) == (3 if "b.ply" in command else 1), done.err
    assert "Traceback" not in done.err
    assert state(here) == before
    if command == "train":
        assert not list((here / "out").rglob("*.safetensors"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX: fork and SIGKILL")
@pytest.mark.parametrize("command", WORDS)
def test_a_kill_before_the_end_leaves_the_old_file(command: str, here: Path, pdflow: Run) -> None:
    line = WORDS[command]
    paths = outputs(line)
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
    assert all(path.read_bytes() != OLD for path in paths)


@pytest.mark.parametrize("command", ["convert", "denoise"])
def test_no_cache_is_needed(command: str, here: Path, pdflow: Run, monkeypatch: Any) -> None:
    from pdflow.compiled import cache

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cache._CheckedFiles, "_load", refuse)
    monkeypatch.setattr(cache._CheckedFiles, "_save", refuse)
    outputs(WORDS[command])
    assert pdflow(*WORDS[command].split()).code == 0
