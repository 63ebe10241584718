"""Two processes make the steps that one makes with the whole batch."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import pdflow
from pdflow.errors import PdflowError
from pdflow.train.compute.distributed import Workers
from pdflow.train.data import PatchPool
from pdflow.train.recipe import load_recipe
from pdflow.train.run import train
from pdflow.train.shapes import Shapes
from pdflow.weights import read_provenance, read_tensors

RECIPE = """
[model]
edge_neighbours = [4, 0]
augment_dims = 5
condition_neighbours = 4
patch_points = 32
hidden = 8
filter = "lcc"
filter_init = "authors"
augment_norm = "none"
[data]
holdout = ["b"]
seeds = 16
iterate = 0.4
[loss]
matching = "paired"
prior = 1e-3
[optim]
batch = 8
steps = 3
warmup = 1
schedule = "plateau"
[validation]
every = 2
patches = 2
"""

SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from pdflow.train.recipe import load_recipe
from pdflow.train.run import train
from pdflow.train.shapes import Shapes
home, folder = map(Path, sys.argv[1:])
sphere = np.load(home / "sphere.npy")
train(load_recipe(home / "recipe.toml"), Shapes({"a": [sphere], "b": [sphere]}), folder, "cpu")
"""


def test_two_processes_equal_one(
    tmp_path: Path,
    sphere: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.save(tmp_path / "sphere.npy", sphere)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    recipe, shapes = load_recipe(tmp_path / "recipe.toml"), Shapes({"a": [sphere], "b": [sphere]})
    train(recipe, shapes, tmp_path / "one", "cpu")

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for name, value in {
        "PYTHONPATH": str(Path(pdflow.__file__).parents[1]),
        "TORCHELASTIC_RUN_ID": "as torchrun does",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }.items():
        monkeypatch.setenv(name, value)
    # This process is the first one.
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path), str(tmp_path / "rank1")],
        env={**os.environ, "RANK": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as second:
        monkeypatch.setenv("RANK", "0")
        capsys.readouterr()
        train(recipe, shapes, tmp_path / "rank0", "cpu")
        out, err = second.communicate(timeout=120)
    assert second.returncode == 0, err
    assert "3 steps, done" in capsys.readouterr().out
    assert not out
    assert not (tmp_path / "rank1").exists()

    name = "model.safetensors"
    one, two = (read_tensors(tmp_path / folder / name)[0] for folder in ("one", "rank0"))
    for key, value in one.items():
        assert torch.allclose(value.float(), two[key].float(), atol=1e-5, rtol=1e-4), key
    assert read_provenance(tmp_path / "rank0" / name)["processes"] == 2
    lines = [
        [json.loads(line) for line in (tmp_path / folder / "log.jsonl").read_text().splitlines()]
        for folder in ("one", "rank0")
    ]
    for ours, theirs in zip(*lines, strict=True):
        for figure in {"loss", "rec", "prior", "denoise", "validation"} & ours.keys():
            assert theirs[figure] == pytest.approx(ours[figure], rel=1e-4)


def test_rows_are_dealt_out_in_turn(pool: PatchPool) -> None:
    batch = pool.sample(6, (0.0, 0.1))
    parts = [Workers(rank, 3).part(batch) for rank in range(3)]
    assert torch.equal(parts[1].noisy, batch.noisy[1::3])
    assert torch.equal(parts[2].sigma, batch.sigma[2::3])
    assert [Workers(rank, 3).own_rows(4) for rank in range(3)] == [2, 1, 1]
    with pytest.raises(PdflowError, match="cannot be divided among 4"):
        Workers(0, 4).part(batch)
