"""A step recorded as a CUDA graph is the step itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from pdflow.train.compute.capture import captured
from pdflow.train.data import PatchPool
from pdflow.train.loop import Trainer
from pdflow.train.recipe import Recipe, load_recipe

MakeRecipe = Callable[..., Recipe]


def _copies(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in trainer.tensors().items()}


@pytest.mark.gpu
def test_recording_changes_nothing_and_repeats_the_step(tiny: MakeRecipe, pool: PatchPool) -> None:
    on_gpu = PatchPool(pool.surroundings.cuda(), pool.patch_points)
    recorded, plain = (Trainer(tiny(), on_gpu, "cuda") for _ in range(2))
    before, random = _copies(recorded), torch.cuda.get_rng_state()
    run = captured(recorded.step, recorded.tensors(), recorded.device)
    assert torch.equal(random, torch.cuda.get_rng_state())
    for name, value in recorded.tensors().items():
        assert torch.equal(value, before[name]), name
    for trainer in (recorded, plain):
        trainer.rate.fill_(1e-3)
    for _ in range(3):
        run()
    torch.cuda.set_rng_state(random)
    for _ in range(3):
        plain.step()
    for a, b in zip(recorded.averages, plain.averages, strict=True):
        assert torch.allclose(a, b, atol=1e-4)


@pytest.mark.gpu
def test_a_recorded_step_is_skipped_as_well(tiny: MakeRecipe, pool: PatchPool) -> None:
    on_gpu = PatchPool(pool.surroundings.cuda(), pool.patch_points)
    trainer = Trainer(tiny(), on_gpu, "cuda")
    trainer.rate.fill_(1e-3)
    factor = torch.ones((), device="cuda")
    trainer.parameters[0].register_hook(lambda gradient: gradient * factor)
    run = captured(trainer.step, trainer.tensors(), trainer.device)
    run()
    before = _copies(trainer)
    factor.fill_(float("nan"))
    run()
    assert int(trainer.skipped) == 1
    for name, value in trainer.tensors().items():
        if name != "skipped" and not name.startswith("batch."):
            assert torch.equal(value, before[name]), name


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["paper-lcc", "paper-fbm", "pdflow-fast"])
def test_a_gpu_repeats_a_run_to_the_bit(name: str, sphere: np.ndarray) -> None:
    recipe = load_recipe(name)
    optim = replace(recipe.optim, batch=8, steps=12, warmup=2)
    generator = torch.Generator("cuda").manual_seed(0)
    pool = PatchPool.cut([sphere] * 4, 16, recipe.model.patch_points, generator)

    def weights() -> list[torch.Tensor]:
        trainer = Trainer(replace(recipe, optim=optim), pool, "cuda")
        trainer.fit()
        return trainer.averages

    assert all(torch.equal(a, b) for a, b in zip(weights(), weights(), strict=True))
