"""Numbers that are not finite in a batch leave a training run as it was, however steps are run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from pdflow.train.compute.capture import captured
from pdflow.train.data import PatchPool
from pdflow.train.loop import Trainer
from pdflow.train.recipe import Recipe

MakeRecipe = Callable[..., Recipe]
ON_GPU = pytest.mark.gpu
PAPER = {"augment_flow": "couplings", "augment_norm": "batch", "coupling": "affine"}


@pytest.mark.parametrize("network", [{}, PAPER], ids=["ours", "paper"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "run",
    ["cpu", pytest.param("cuda", marks=ON_GPU), pytest.param("captured", marks=ON_GPU)],
)
def test_a_bad_batch_changes_nothing(
    tiny: MakeRecipe, pool: PatchPool, run: str, bad: float, network: dict[str, str]
) -> None:
    recipe = tiny(iterate=0.25)
    recipe = replace(recipe, model=replace(recipe.model, **network))
    device = "cpu" if run == "cpu" else "cuda"
    own = PatchPool(pool.surroundings.to(device, copy=True), pool.patch_points)
    trainer = Trainer(recipe, own, device)
    trainer.rate.fill_(1e-3)
    step = (
        captured(trainer.step, trainer.tensors(), trainer.device)
        if run == "captured"
        else trainer.step
    )
    own.surroundings[:, 0] = bad  # of every seed, and so of every distance
    step()  # draws the first bad batch
    before = {name: value.detach().clone() for name, value in trainer.tensors().items()}
    step()
    own.surroundings.copy_(pool.surroundings)
    step()  # draws a good one again
    assert int(trainer.skipped) == 2
    for name, value in trainer.tensors().items():
        if name != "skipped" and not name.startswith("batch.") and "batches_tracked" not in name:
            assert torch.equal(value, before[name]), name
    step()
    assert int(trainer.skipped) == 2
    assert all(torch.isfinite(parameter).all() for parameter in trainer.parameters)
    assert not torch.equal(trainer.parameters[0], before[_name_of_first(trainer)])


def _name_of_first(trainer: Trainer) -> str:
    return "model." + next(name for name, _ in trainer.model.named_parameters())
