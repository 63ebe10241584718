"""The folder of a run: checkpoint, weights with their provenance, log and picture."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import pdflow
from pdflow.train.recipe import Recipe, load_recipe
from pdflow.train.run import fit_to_device, train
from pdflow.train.shapes import Shapes
from pdflow.weights import load_model, read_provenance

MakeRecipe = Callable[..., Recipe]


@pytest.fixture
def shapes(sphere: np.ndarray) -> Shapes:
    return Shapes({"ball": [sphere], "egg": [0.9 * sphere]})


def _held_out(recipe: Recipe) -> Recipe:
    return replace(recipe, data=replace(recipe.data, holdout=("egg",)))


def test_a_run_fills_its_folder(tiny: MakeRecipe, shapes: Shapes, tmp_path: Path) -> None:
    said: list[str] = []
    recipe = _held_out(tiny(4))
    shares: list[float] = []
    trainer = train(recipe, shapes, tmp_path / "run", "cpu", say=said.append, advance=shares.append)
    assert sum(shares) == pytest.approx(1)
    lines = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "validation" in line] == [3, 4]
    assert lines[-2]["loss"] > 0
    assert (tmp_path / "run/patch.png").is_file()
    weights = tmp_path / "run/model.safetensors"
    assert said[-1] == f"{weights}: 4 steps, done"
    for a, b in zip(load_model(weights).parameters(), trainer.averages, strict=True):
        assert torch.equal(a, b)

    origin = read_provenance(weights)
    kept, _ = shapes.split(("egg",))
    assert origin["recipe"] == json.loads(json.dumps(recipe.as_dict()))
    assert origin["data_sha256"] == kept.digest
    assert (origin["steps"], origin["patches"], origin["seed"]) == (4, 32, 0)
    assert origin["init_sha256"] is None
    assert origin["torch"] == torch.__version__
    assert origin["minutes"] > 0
    assert "cpu" in origin["device"]
    assert origin["commit"]

    train(replace(recipe, optim=replace(recipe.optim, steps=5)), shapes, tmp_path / "run", "cpu",
          say=said.append)  # fmt: skip
    assert "resuming at step 4" in said
    assert read_provenance(weights)["steps"] == 5


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_run_and_everything_is_saved(
    tiny: MakeRecipe, shapes: Shapes, tmp_path: Path, kind: signal.Signals
) -> None:
    before = signal.getsignal(kind)
    shares: list[float] = []

    def interrupt_once(share: float) -> None:
        shares.append(share)
        if len(shares) == 3:
            os.kill(os.getpid(), kind)

    said: list[str] = []
    trainer = train(tiny(100), shapes, tmp_path, "cpu", say=said.append, advance=interrupt_once)
    assert trainer.stop
    assert trainer.step_count == 3
    assert said[-1].endswith("3 steps, stopped; the same command resumes")
    assert (tmp_path / "checkpoint.safetensors").is_file()
    assert read_provenance(tmp_path / "model.safetensors")["steps"] == 3
    assert signal.getsignal(kind) == before


def test_curves_go_to_tensorboard_where_it_is_installed(
    tiny: MakeRecipe, shapes: Shapes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curves: list[tuple[str, int]] = []

    class Board:
        def __init__(self, folder: str) -> None:
            assert folder == str(tmp_path)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            curves.append((name, step))

        def close(self) -> None:
            curves.append(("closed", 0))

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Board  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    said: list[str] = []
    train(_held_out(tiny(3)), shapes, tmp_path, "cpu", say=said.append)
    assert {("train/loss", 3), ("validation/error@0.03", 3), ("closed", 0)} <= set(curves)
    assert not any("TensorBoard" in sentence for sentence in said)


def test_without_tensorboard_one_sentence_says_so(
    tiny: MakeRecipe, shapes: Shapes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    said: list[str] = []
    train(tiny(1), shapes, tmp_path, "cpu", say=said.append)
    assert sum("[train]" in sentence for sentence in said) == 1


def test_training_needs_neither_numba_nor_typer(tmp_path: Path, sphere: np.ndarray) -> None:
    """Machines that only train may lack them: shapes come as arrays there."""
    np.save(tmp_path / "sphere.npy", sphere)
    (tmp_path / "recipe.toml").write_text(
        "[model]\nedge_neighbours = [0]\naugment_dims = 5\ncondition_neighbours = 4\n"
        "patch_points = 32\nhidden = 8\nfilter = 'fbm'\nmasked_dims = 2\n"
        "[data]\nholdout = ['b']\nseeds = 8\n[loss]\nmatching = 'paired'\n"
        "[optim]\nbatch = 2\nsteps = 2\n[validation]\nevery = 1\npatches = 2\n"
    )
    script = f"""
import sys
for name in ("numba", "typer", "rich", "tensorboard"):
    sys.modules[name] = None
from pathlib import Path
import numpy as np
from pdflow.train.recipe import load_recipe
from pdflow.train.run import train
from pdflow.train.shapes import Shapes
folder = Path({str(tmp_path)!r})
sphere = np.load(folder / "sphere.npy")
train(load_recipe(folder / "recipe.toml"), Shapes({{"a": [sphere], "b": [sphere]}}), folder, "cpu")
"""
    source = str(Path(pdflow.__file__).parents[1])
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "2 steps, done" in done.stdout
    assert (tmp_path / "patch.png").is_file()


def test_hold_outs_of_other_data_are_left_out_with_a_sentence(
    tiny: MakeRecipe, shapes: Shapes, tmp_path: Path
) -> None:
    recipe = tiny(1)
    recipe = replace(recipe, data=replace(recipe.data, holdout=("block", "eros")))
    said: list[str] = []
    train(recipe, shapes, tmp_path, "cpu", say=said.append)
    assert any("(block, eros) is in this data" in sentence for sentence in said)
    kept = read_provenance(tmp_path / "model.safetensors")["recipe"]
    assert kept["data"]["holdout"] == []
    mixed = replace(recipe, data=replace(recipe.data, holdout=("egg", "eros")))
    with pytest.raises(pdflow.PdflowError, match="'eros' is not among"):
        train(mixed, shapes, tmp_path / "mixed", "cpu", say=said.append)


def test_batches_fit_a_cpu() -> None:
    said: list[str] = []
    default = load_recipe("pdflow-fast")
    fitted = fit_to_device(default, "cpu", said.append).optim
    assert (default.optim.batch, fitted.batch) == (64, 8)
    assert fitted.lr == pytest.approx(default.optim.lr / 8**0.5)
    assert said == ["on a CPU: batches of 8 patches instead of 64, rate 0.00053 instead of 0.0015"]
    small = load_recipe("pdflow-small")
    assert fit_to_device(small, "cpu") == small
    assert fit_to_device(default, "cuda") == default


def test_the_log_starts_at_step_1_and_is_drawn(
    tiny: MakeRecipe, shapes: Shapes, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    train(_held_out(tiny(6)), shapes, tmp_path, "cpu", say=lambda sentence: None)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 5, 6]
    picture = (tmp_path / "curves.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    train(_held_out(tiny(9)), shapes, tmp_path, "cpu", say=lambda sentence: None)
    assert (tmp_path / "curves.png").read_bytes() != picture


def test_a_gpu_with_too_little_memory_gets_one_sentence(
    tiny: MakeRecipe, shapes: Shapes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(trainer: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr("pdflow.train.loop.Trainer.step", fail)
    with pytest.raises(pdflow.PdflowError, match="too little memory for batches of 8 patches"):
        train(tiny(2), shapes, tmp_path, "cpu", say=lambda sentence: None)
