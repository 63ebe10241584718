from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.train.data import PatchPool
from pdflow.train.first_pass import pass_once
from pdflow.train.loop import Trainer
from pdflow.train.passed import PassedPool
from pdflow.train.recipe import Recipe
from pdflow.train.run import train
from pdflow.train.shapes import Shapes
from pdflow.weights import load_model, save_model


@pytest.fixture
def stretched(pool: PatchPool) -> PassedPool:
    """Clouds that a pass has made a tenth larger."""
    clean = pool.surroundings
    return PassedPool(1.1 * clean, clean, torch.full((len(clean),), 0.05), pool.patch_points)


def test_rows_of_passed_patches_belong_together(stretched: PassedPool) -> None:
    batch = stretched.sample(5)
    assert batch.noisy.shape == (5, stretched.patch_points, 3)
    assert torch.allclose(batch.noisy, 1.1 * batch.clean, atol=1e-5)
    assert torch.equal(batch.sigma, torch.full((5,), 0.05))


def test_passed_patches_come_in_the_networks_frame(stretched: PassedPool) -> None:
    batch = stretched.sample(5, radius=4.0, centred=True)
    assert batch.noisy[:, 0].abs().max() < 1e-5
    radii = batch.noisy.norm(dim=-1).amax(1)
    assert radii == pytest.approx(torch.full((5,), 4.0), rel=1e-4)
    assert (batch.sigma > 0.05).all()


def test_a_pass_brings_clouds_nearer_to_the_clean_ones() -> None:
    points = np.random.default_rng(0).normal(size=(8000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    passed = pass_once(load_model("pdflow"), [points], 1, 8, (0.05, 0.05), seed=1)
    assert passed.moved.shape == passed.clean.shape == (8, 2048, 3)
    assert passed.clean.norm(dim=-1).sub(1).abs().max() < 1e-5
    assert passed.sigma.tolist() == pytest.approx([0.05] * 8)
    left = passed.moved.norm(dim=-1).sub(1).square().mean().sqrt()
    assert left < 0.5 * 0.05


def test_clouds_that_get_no_second_pass_are_left_out(sphere: np.ndarray) -> None:
    with pytest.raises(PdflowError, match="second pass"):
        pass_once(load_model("pdflow"), [sphere], 1, 8, (0.001, 0.001), seed=0)


def test_the_iterated_share_is_taken_from_passed_clouds(
    pool: PatchPool,
    stretched: PassedPool,
    tiny: Callable[..., Recipe],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer = Trainer(tiny(iterate=0.25), pool, "cpu", passed=stretched)
    monkeypatch.setattr(PDFlow, "denoise_patches", None)
    trainer.step()
    noisy, clean = trainer.batch.noisy, trainer.batch.clean
    assert len(noisy) == 8
    stretch = torch.linalg.vector_norm(noisy - noisy[:, :1], dim=2).sum(1)
    stretch = stretch / torch.linalg.vector_norm(clean - clean[:, :1], dim=2).sum(1)
    assert stretch[:2] == pytest.approx(torch.full((2,), 1.1), rel=1e-4)
    assert (stretch[2:] - 1.1).abs().min() > 1e-3


def test_a_run_passes_its_clouds_through_the_weights_it_starts_from(
    sphere: np.ndarray, tiny: Callable[..., Recipe], tmp_path: Path
) -> None:
    recipe = tiny(2, iterate=0.5)
    data = replace(recipe.data, passed=1, levels=(0.2, 0.2))
    recipe = replace(recipe, data=data)
    shapes, start, said = Shapes({"sphere": [sphere]}), tmp_path / "start.safetensors", []
    save_model(start, PDFlow(recipe.model), {})
    trainer = train(recipe, shapes, tmp_path / "run", "cpu", init=start, say=said.append)
    assert trainer.step_count == 2
    assert trainer.passed is not None
    assert f"1 clouds go through {start} once" in said


def test_passed_clouds_need_weights_to_start_from(
    sphere: np.ndarray, tiny: Callable[..., Recipe], tmp_path: Path
) -> None:
    recipe = tiny(2, iterate=0.5)
    recipe = replace(recipe, data=replace(recipe.data, passed=1))
    with pytest.raises(PdflowError, match="--init"):
        train(recipe, Shapes({"sphere": [sphere]}), tmp_path, "cpu", say=lambda line: None)
