"""A tiny network learns to denoise a sphere, and a stopped run goes on to the same bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pdflow.errors import PdflowError
from pdflow.losses import LossTerms, joint_loss
from pdflow.train.data import PatchPool, random_rotations
from pdflow.train.loop import Trainer, learning_rate
from pdflow.train.recipe import Recipe, load_recipe, shipped_recipes
from pdflow.train.shapes import read_shapes

POINTS = 64


def _sphere(count: int = 2000) -> np.ndarray:
    points = np.random.default_rng(0).normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _tiny(steps: int) -> Recipe:
    recipe = load_recipe("pdflow")
    model = replace(
        recipe.model,
        edge_neighbours=(0, 0),
        augment_dims=13,
        masked_dims=8,
        hidden=16,
        condition_neighbours=16,
        condition_hidden=32,
        condition_layers=2,
        condition_features=32,
        patch_points=POINTS,
    )
    optim = replace(recipe.optim, batch=8, steps=steps, warmup=20, ema=0.9, lr=3e-3)
    data = replace(recipe.data, levels=(0.05, 0.05), iterate=0.0)
    loss = replace(recipe.loss, rec=1 / POINTS, chamfer=0.5 / POINTS)
    return Recipe("tiny", model, data, loss, optim)


def _pool() -> PatchPool:
    return PatchPool.cut([_sphere()], 64, POINTS, torch.Generator().manual_seed(0))


def test_a_tiny_network_learns_to_remove_noise() -> None:
    torch.manual_seed(0)
    trainer = Trainer(_tiny(steps=200), _pool(), "cpu")
    trainer.step()
    first = float(trainer.terms[0])
    trainer.fit(minutes=5, log=lambda line: None)
    assert float(trainer.terms[0]) < 0.8 * first
    assert int(trainer.skipped) == 0
    batch = _pool().sample(
        16, (0.05, 0.05), radius=4.0, centred=True, generator=torch.Generator().manual_seed(1)
    )
    model = trainer.averaged()
    with torch.no_grad():
        denoised = model.denoise_patches(batch.noisy)
    inner = batch.noisy.norm(dim=-1) < 2.5

    def off_surface(points: torch.Tensor) -> float:
        gaps = torch.cdist(points, batch.clean).amin(2)
        return float(gaps[inner].square().mean())

    assert off_surface(denoised) < 0.7 * off_surface(batch.noisy)


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    pool = _pool()
    whole = Trainer(_tiny(steps=6), pool, "cpu")
    whole.fit(minutes=5, log=lambda line: None)

    half = Trainer(_tiny(steps=6), pool, "cpu")
    for _ in range(3):
        half.rate.fill_(learning_rate(half.step_count, half.recipe))
        half.step()
        half.step_count += 1
    half.save(tmp_path / "half.safetensors")
    torch.manual_seed(99)
    resumed = Trainer(_tiny(steps=6), pool, "cpu")
    resumed.resume(tmp_path / "half.safetensors")
    resumed.fit(minutes=5, log=lambda line: None)
    for a, b in zip(whole.parameters, resumed.parameters, strict=True):
        assert torch.equal(a, b)
    for a, b in zip(whole.average, resumed.average, strict=True):
        assert torch.equal(a, b)


def test_a_bad_gradient_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(_tiny(steps=6), _pool(), "cpu")
    trainer.rate.fill_(1e-3)
    trainer.step()
    before = [p.detach().clone() for p in trainer.parameters]

    def broken(*args: Any, **kwargs: Any) -> LossTerms:
        terms = joint_loss(*args, **kwargs)
        return replace(terms, total=terms.total * float("nan"))

    monkeypatch.setattr("pdflow.train.loop.joint_loss", broken)
    trainer.step()
    assert int(trainer.skipped) == 1
    moments = [trainer.optimizer.state[p]["exp_avg"] for p in trainer.parameters]
    assert all(torch.isfinite(m).all() for m in moments)
    drift = max(float((a - b).abs().max()) for a, b in zip(before, trainer.parameters, strict=True))
    assert drift < 2e-3


def test_batches_are_noisy_patches_around_their_seed() -> None:
    generator = torch.Generator().manual_seed(3)
    batch = _pool().sample(5, (0.01, 0.03), radius=4.0, centred=True, generator=generator)
    assert batch.noisy.shape == batch.clean.shape == (5, POINTS, 3)
    assert batch.noisy[:, 0].abs().max() < 1e-5
    assert batch.noisy.norm(dim=-1).amax(1) == pytest.approx(torch.full((5,), 4.0), rel=1e-4)
    spread = (batch.noisy - batch.clean).std(dim=(1, 2))
    assert (spread / batch.sigma - 1).abs().max() < 0.35


def test_rotations_are_rotations() -> None:
    r = random_rotations(10, torch.device("cpu"), torch.Generator().manual_seed(0))
    assert torch.allclose(r @ r.transpose(1, 2), torch.eye(3).expand(10, 3, 3), atol=1e-5)
    assert torch.allclose(torch.linalg.det(r), torch.ones(10), atol=1e-5)


def test_rate_warms_up_and_falls() -> None:
    recipe = _tiny(steps=100)
    rates = [learning_rate(step, recipe) for step in range(100)]
    assert rates[0] < rates[10] < rates[19]
    assert rates[99] < 0.01 * max(rates)


def test_every_shipped_recipe_loads() -> None:
    for name in shipped_recipes():
        assert load_recipe(name).name == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\ncolour = 1", "no setting 'colour'"),
        ("[paint]\n", r"unknown section \[paint\]"),
        ("[model\n", "no TOML"),
        ("[model]\nfilter = 'median'", "Bad network config"),
    ],
)
def test_bad_recipes_are_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(PdflowError, match=message):
        load_recipe(path)
    with pytest.raises(PdflowError, match="No recipe"):
        load_recipe("nonsense")


def test_shapes_are_read_from_folders_and_split(tmp_path: Path) -> None:
    folder = tmp_path / "PUNet" / "pointclouds" / "train" / "10000_poisson"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        np.savetxt(folder / f"{name}.xyz", 3 * _sphere(50) + 7)
    shapes = read_shapes(tmp_path)
    train, held = shapes.split(("b",))
    assert list(train.clouds) == ["a"]
    assert list(held.clouds) == ["b"]
    assert np.abs(shapes.all_clouds()[0]).max() <= 1 + 1e-9
    assert shapes.digest != train.digest
    with pytest.raises(PdflowError, match="'c'"):
        shapes.split(("c",))
    with pytest.raises(PdflowError, match="no clouds"):
        read_shapes(tmp_path / "nothing")
