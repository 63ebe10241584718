"""A stopped run resumes to the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pdflow.errors import PdflowError
from pdflow.train.checkpoint import resume, save_checkpoint
from pdflow.train.data import PatchPool
from pdflow.train.loop import Trainer
from pdflow.train.recipe import Recipe
from pdflow.weights import read_tensors, save_model

MakeRecipe = Callable[..., Recipe]


def _stop_after(trainer: Trainer, steps: int) -> None:
    def check(share: float) -> None:
        trainer.stop = trainer.step_count >= steps - 1

    trainer.fit(advance=check)
    trainer.stop = False


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_stopped_run_goes_on_to_the_same_bits(
    tiny: MakeRecipe, pool: PatchPool, tmp_path: Path, device: str
) -> None:
    recipe = tiny(20, iterate=0.25, precision="ieee" if device == "cpu" else "bf16")
    pool = PatchPool(pool.surroundings.to(device), pool.patch_points)
    whole = Trainer(recipe, pool, device)
    whole.fit()

    half = Trainer(recipe, pool, device)
    _stop_after(half, 10)  # on a GPU, the trainer looks up every ten steps
    assert half.step_count == 10
    save_checkpoint(half, tmp_path / "half.safetensors")
    half.averaged()
    torch.manual_seed(99)
    resumed = Trainer(recipe, pool, device)
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
    generator = torch.Generator(pool.surroundings.device).manual_seed(0)
    return pool.sample(1, (0.05, 0.05), generator=generator).noisy


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


def test_damage_anywhere_is_noticed(tiny: MakeRecipe, pool: PatchPool, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    trainer = Trainer(tiny(6), pool, "cpu")
    save_checkpoint(trainer, path)
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    rng = np.random.default_rng(0)
    places = {*rng.integers(8, start, 60).tolist(), *rng.integers(start, len(data), 20).tolist()}
    for place in {0, 8, start, len(data) - 1, *places}:
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(PdflowError, match=r"checkpoint\.safetensors") as refused:
            resume(trainer, path)
        assert "\n" not in str(refused.value)
    path.write_bytes(data)
    resume(trainer, path)


@pytest.mark.parametrize("state", ["", "[]", "{}", "7", '{"recipe": 3}', '{"recipe": {}}'])
def test_a_checkpoint_without_checksum_and_with_a_damaged_state(
    tiny: MakeRecipe, pool: PatchPool, tmp_path: Path, state: str
) -> None:
    path = tmp_path / "checkpoint.safetensors"
    save_file({"random": torch.get_rng_state()}, path, {"training": state})
    with pytest.raises(PdflowError, match=r"is damaged|lacks"):
        resume(Trainer(tiny(6), pool, "cpu"), path)


def test_a_checkpoint_of_before_resumes(tiny: MakeRecipe, pool: PatchPool, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    trainer = Trainer(tiny(6), pool, "cpu")
    _stop_after(trainer, 2)
    save_checkpoint(trainer, path)
    tensors, header = read_tensors(path)
    save_file(tensors, path, {"training": header["training"]})
    resumed = Trainer(tiny(6), pool, "cpu")
    resume(resumed, path)
    assert resumed.step_count == 2
