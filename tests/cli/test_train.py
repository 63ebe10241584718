"""`pdflow train`: a folder of shapes in, weights out."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow.weights import load_model, read_provenance

Run = Callable[..., Any]

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
resolutions = [64]
[loss]
matching = "paired"
[optim]
batch = 2
steps = 2
[validation]
every = 2
patches = 2
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture
def shapes(tmp_path: Path, box: Path) -> Path:
    """A folder with a mesh and a cloud."""
    folder = tmp_path / "shapes"
    folder.mkdir()
    box.rename(folder / "box.off")
    np.save(folder / "noise.npy", np.random.default_rng(0).normal(size=(100, 3)))
    return folder


def test_trains_goes_on_and_starts_others(
    pdflow: Run, recipe: Path, shapes: Path, tmp_path: Path
) -> None:
    words = ("train", "--data", shapes, "--recipe", recipe, "--device", "cpu", "-o")
    first = pdflow(*words, tmp_path / "first", "--holdout", "noise")
    assert first.code == 0, first.err
    assert "validation" in first.out
    weights = tmp_path / "first" / "model.safetensors"
    assert f"{weights}: 2 steps, done" in first.out
    assert load_model(weights).config.filter == "fbm"
    assert len(list((tmp_path / "first" / "cache").iterdir())) == 1

    recipe.write_text(RECIPE.replace("steps = 2", "steps = 3"))
    again = pdflow(*words, tmp_path / "first", "--holdout", "noise")
    assert "resuming at step 2" in again.out
    assert "3 steps, done" in again.out

    recipe.write_text(RECIPE.replace('"fbm"', '"lbm"'))
    other = pdflow(*words, tmp_path / "other", "--init", weights, "--cache", tmp_path / "cache")
    assert other.code == 0, other.err
    assert read_provenance(tmp_path / "other" / "model.safetensors")["init_sha256"]
    assert not (tmp_path / "other" / "cache").exists()


def test_ctrl_c_saves_and_exits_as_elsewhere(
    pdflow: Run, recipe: Path, shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe.write_text(RECIPE.replace("steps = 2", "steps = 1000000"))
    from pdflow.train.loop import Trainer

    step = Trainer.step

    def interrupted(trainer: Trainer) -> None:
        step(trainer)
        if trainer.step_count == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Trainer, "step", interrupted)
    done = pdflow("train", "--data", shapes, "--recipe", recipe, "-o", tmp_path / "run")
    assert done.code == 130
    assert "2 steps, stopped; the same command resumes" in done.out
    assert (tmp_path / "run" / "checkpoint.safetensors").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--anneal"], "--anneal needs --minutes"),
        (["--recipe", "nonsense"], "No recipe"),
        (["--init", "nothing"], "No model"),
        (["--holdout", "elk"], "'elk' is not among"),
        (["--device", "abacus"], "'abacus' cannot be used"),
        (["--data", "nowhere"], "is not a folder"),
    ],
)
def test_bad_usage_is_one_sentence(
    pdflow: Run, recipe: Path, shapes: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    options = {"--data": str(shapes), "--recipe": str(recipe), "--device": "cpu"}
    given = {word for word in words if word.startswith("--")}
    rest = [part for name, value in options.items() if name not in given for part in (name, value)]
    outcome = pdflow("train", "-o", tmp_path / "run", *rest, *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
