"""A tiny network learns to denoise a sphere; bad steps change nothing; runs keep their time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from pdflow.errors import PdflowError
from pdflow.train.data import PatchPool
from pdflow.train.loop import Trainer
from pdflow.train.losses import LossTerms, joint_loss
from pdflow.train.recipe import Recipe
from pdflow.train.shapes import Shapes
from pdflow.train.validation import Validation

MakeRecipe = Callable[..., Recipe]


def test_a_tiny_network_learns_to_remove_noise(tiny: MakeRecipe, pool: PatchPool) -> None:
    """The loss falls, and of the squared distance to the surface less than 0.7 is left.

    Three seeds came to 0.81 of the first loss (pairs cannot be told apart entirely), and to 0.52
    to 0.55 of the squared distance; doing nothing leaves 1.
    """
    trainer = Trainer(tiny(200), pool, "cpu")
    lines: list[dict[str, Any]] = []
    first = _loss(trainer)
    trainer.fit(minutes=5, log=lines.append)
    assert lines[-1]["step"] == 200
    assert lines[-1]["skipped"] == 0
    assert _loss(trainer) < 0.85 * first
    batch = pool.sample(
        16, (0.05, 0.05), radius=4.0, centred=True, generator=torch.Generator().manual_seed(1)
    )
    denoised = trainer.averaged().denoise_patches(batch.noisy)
    inner = batch.noisy.norm(dim=-1) < 2.5

    def off_surface(points: torch.Tensor) -> float:
        gaps = torch.cdist(points, batch.clean).amin(2)
        return float(gaps[inner].square().mean())

    assert off_surface(denoised) < 0.7 * off_surface(batch.noisy)


def _loss(trainer: Trainer) -> float:
    """The mean loss of four batches that are always the same."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(5)
        return sum(float(trainer._loss(trainer._draw())[0]) for _ in range(4)) / 4


def test_a_bad_gradient_changes_nothing(
    tiny: MakeRecipe, pool: PatchPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny()
    batch_norm = replace(recipe.model, augment_flow="couplings", augment_norm="batch")
    trainer = Trainer(replace(recipe, model=batch_norm), pool, "cpu")
    trainer.rate.fill_(1e-3)
    trainer.step()
    before = {name: value.clone() for name, value in trainer.tensors().items()}

    def broken(*args: Any, **kwargs: Any) -> LossTerms:
        terms = joint_loss(*args, **kwargs)
        return replace(terms, total=terms.total * float("nan"))

    with monkeypatch.context() as patched:
        patched.setattr("pdflow.train.loop.joint_loss", broken)
        trainer.step()
    assert int(trainer.skipped) == 1
    for name, value in trainer.tensors().items():
        if name != "skipped" and not name.endswith("num_batches_tracked"):
            assert torch.equal(value, before[name]) != name.startswith("batch."), name
    trainer.step()
    assert int(trainer.skipped) == 1
    assert not torch.equal(trainer.averages[0], before["average." + _first_name(trainer)])


def _first_name(trainer: Trainer) -> str:
    return next(name for name, _ in trainer.mean_model.named_parameters())


def test_outputs_that_are_not_finite_are_not_trained_on(
    tiny: MakeRecipe, pool: PatchPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(tiny(iterate=0.5), pool, "cpu")
    trainer.rate.fill_(1e-3)
    broken = torch.full((4, pool.patch_points, 3), float("nan"))
    monkeypatch.setattr(trainer.model, "denoise_patches", lambda noisy, sigma: broken)
    trainer.step()
    assert int(trainer.skipped) == 0
    assert torch.isfinite(trainer.sums).all()


def test_a_conditioned_network_learns_to_use_the_noise(
    tiny: MakeRecipe, pool: PatchPool, sphere: Any
) -> None:
    """It changes a patch more if it is given more noise for it."""
    recipe = tiny(60)
    recipe = replace(
        recipe,
        model=replace(recipe.model, noise_conditioning=True),
        data=replace(recipe.data, levels=(0.0, 0.1)),
    )
    validation = Validation(Shapes({"a": [sphere]}), recipe, "cpu")
    trainer = Trainer(recipe, pool, "cpu", validation=validation)
    lines: list[dict[str, Any]] = []
    trainer.fit(log=lines.append)
    assert lines[-1]["validation"] < 1
    batch = validation.patches[0.05]
    little, much = (
        trainer.averaged().denoise_patches(batch.noisy, sigma=factor * batch.sigma) - batch.noisy
        for factor in (0.2, 2.0)
    )
    assert much.square().mean() > 1.5 * little.square().mean()


def test_overlapping_patches_come_to_agree(tiny: MakeRecipe, pool: PatchPool) -> None:
    def disagreement(weight: float) -> float:
        recipe = tiny(80, iterate=0.25)
        loss = replace(recipe.loss, consistency=weight)
        trainer = Trainer(replace(recipe, loss=loss), pool, "cpu")
        lines: list[dict[str, Any]] = []
        trainer.fit(log=lines.append)
        assert (lines[-1]["consistency"] > 0) == (weight > 0)
        assert lines[-1]["skipped"] == 0
        batch = pool.sample(
            16, (0.05, 0.05), radius=4.0, centred=True, pairs=True,
            generator=torch.Generator().manual_seed(1),
        )  # fmt: skip
        assert batch.pairs is not None
        model = trainer.averaged()
        first, second = (model.denoise_patches(x) for x in (batch.noisy, batch.pairs.noisy))
        return float(batch.pairs.sq_disagreement(first, second).mean())

    assert disagreement(5 / pool.patch_points) < 0.6 * disagreement(0.0)


def test_own_outputs_are_conditioned_on_less_noise(
    tiny: MakeRecipe, pool: PatchPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny(1)
    recipe = replace(
        recipe,
        model=replace(recipe.model, noise_conditioning=True),
        data=replace(recipe.data, levels=(0.05, 0.05), iterate=0.5),
    )
    trainer = Trainer(recipe, pool, "cpu")
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(
        "pdflow.train.loop.joint_loss",
        lambda *args, **given: (
            seen.append(given["conditioning"] / given["sigma"]) or joint_loss(*args, **given)
        ),
    )
    trainer.fit()
    first, second = seen[0].chunk(2)
    assert torch.allclose(first, torch.tensor(0.3))
    assert torch.allclose(second, torch.tensor(1.0))


def test_norms_are_initialised_before_the_first_step(tiny: MakeRecipe, pool: PatchPool) -> None:
    trainer = Trainer(tiny(), pool, "cpu")
    flags = [v for k, v in trainer.model.state_dict().items() if k.endswith("initialised")]
    assert flags
    assert all(flags)
    for parameter, average in zip(trainer.parameters, trainer.averages, strict=True):
        assert torch.equal(parameter, average)


def test_the_schedule_can_end_with_the_minutes(
    tiny: MakeRecipe, pool: PatchPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    monkeypatch.setattr("time.perf_counter", clock)
    trainer = Trainer(tiny(steps=2, warmup=1), pool, "cpu")
    rates: list[float] = []
    trainer.fit(
        minutes=10 / 60, anneal=True, advance=lambda share: rates.append(float(trainer.rate))
    )
    assert trainer.share == 1
    assert trainer.step_count == len(rates) > 2
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.1 * rates[0]
    with pytest.raises(PdflowError, match="minutes"):
        trainer.fit(anneal=True)


def test_a_run_ends_when_asked_to(tiny: MakeRecipe, pool: PatchPool) -> None:
    trainer = Trainer(tiny(steps=50), pool, "cpu")

    def stop_soon(share: float) -> None:
        trainer.stop = trainer.step_count >= 2

    trainer.fit(advance=stop_soon)
    assert trainer.step_count == 3


def test_validation_is_logged_and_leaves_training_alone(
    tiny: MakeRecipe, pool: PatchPool, sphere: Any
) -> None:
    recipe = tiny(4)
    plain = Trainer(recipe, pool, "cpu")
    plain.fit()
    lines: list[dict[str, Any]] = []
    watched = Trainer(
        recipe, pool, "cpu", validation=Validation(Shapes({"a": [sphere]}), recipe, "cpu")
    )
    watched.fit(log=lines.append)
    assert [line["step"] for line in lines if "validation" in line] == [3, 4]
    for a, b in zip(plain.parameters, watched.parameters, strict=True):
        assert torch.equal(a, b)


def test_precision_holds_within_a_fit_only(tiny: MakeRecipe, pool: PatchPool) -> None:
    before = torch.get_float32_matmul_precision()
    seen: list[str] = []
    trainer = Trainer(tiny(1, precision="tf32"), pool, "cpu")
    trainer.fit(advance=lambda share: seen.append(torch.get_float32_matmul_precision()))
    assert seen == ["high"]
    assert torch.get_float32_matmul_precision() == before
