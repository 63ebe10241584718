"""A stopped run resumes to the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pdflow.errors import PdflowError
from pdflow.train.checkpoint import resume, save_checkpoint
from pdflow.train.data import PatchPool
from pdflow.train.loop import Trainer
from pdflow.train.recipe import Recipe
from pdflow.weights import save_model

MakeRecipe = Callable[..., Recipe]


def _stop_after(trainer: Trainer, steps: int) -> None:
    def check(share: float) -> None:
        trainer.stop = trainer.step_count >= steps - 1

    trainer.fit(advance=check)
    trainer.stop = False


def test_a_stopped_run_goes_on_to_the_same_bits(
    tiny: MakeRecipe, pool: PatchPool, tmp_path: Path
) -> None:
    recipe = tiny(6, iterate=0.25)
    whole = Trainer(recipe, pool, "cpu")
    whole.fit()

    half = Trainer(recipe, pool, "cpu")
    _stop_after(half, 3)
    assert half.step_count == 3
    save_checkpoint(half, tmp_path / "half.safetensors")
    half.averaged()
    torch.manual_seed(99)
    resumed = Trainer(recipe, pool, "cpu")
    resume(resumed, tmp_path / "half.safetensors")
    assert resumed.share == 0.5
    resumed.fit()
    for name, value in whole.tensors().items():
        if name not in ("sums", "counted"):
            assert torch.equal(value, resumed.tensors()[name]), name
    assert torch.equal(
        whole.model.denoise_patches(_one(pool)), resumed.model.denoise_patches(_one(pool))
    )


def _one(pool: PatchPool) -> torch.Tensor:
    return pool.sample(1, (0.05, 0.05), generator=torch.Generator().manual_seed(0)).noisy


def test_another_recipe_or_file_is_refused(
    tiny: MakeRecipe, pool: PatchPool, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint.safetensors"
    trainer = Trainer(tiny(6), pool, "cpu")
    save_checkpoint(trainer, path)
    resume(Trainer(tiny(12), pool, "cpu"), path)
    with pytest.raises(PdflowError, match=r"\[optim\] lr = 0.003, but the recipe says 0.1"):
        resume(Trainer(tiny(6, lr=0.1), pool, "cpu"), path)
    recipe = tiny(6)
    other = replace(recipe, loss=replace(recipe.loss, rec=2.0))
    with pytest.raises(PdflowError, match=r"\[loss\] rec"):
        resume(Trainer(other, pool, "cpu"), path)
    save_model(path, trainer.averaged(), {})
    with pytest.raises(PdflowError, match="not a checkpoint"):
        resume(trainer, path)
