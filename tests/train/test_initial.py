"""Weights of one run start another, whose filter may differ."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pdflow.errors import PdflowError
from pdflow.flow.filters import FixedBinaryMask, LatentCodeConsistency, LearnableBinaryMask
from pdflow.model import PDFlow
from pdflow.train.data import PatchPool
from pdflow.train.initial import start_from
from pdflow.train.loop import Trainer
from pdflow.train.recipe import Recipe, load_recipe
from pdflow.weights import find_model, save_model

MakeRecipe = Callable[..., Recipe]


@pytest.fixture
def weights(tiny: MakeRecipe, pool: PatchPool, tmp_path: Path) -> Path:
    """Weights after some steps with a fixed mask."""
    trainer = Trainer(tiny(3), pool, "cpu")
    trainer.fit()
    save_model(tmp_path / "fbm.safetensors", trainer.averaged(), {})
    return tmp_path / "fbm.safetensors"


def test_a_run_starts_from_the_weights(tiny: MakeRecipe, pool: PatchPool, weights: Path) -> None:
    trainer = Trainer(tiny(3), pool, "cpu", init=weights)
    assert trainer.init_sha256 == hashlib.sha256(weights.read_bytes()).hexdigest()
    other = Trainer(replace(tiny(3, seed=5)), pool, "cpu", init=weights)
    for a, b in zip(trainer.averages, other.averages, strict=True):
        assert torch.equal(a, b)
    trainer.fit()
    assert int(trainer.skipped) == 0


@pytest.mark.parametrize("init", ["paper", "authors"])
def test_a_mask_goes_on_as_a_learnable_one(tiny: MakeRecipe, weights: Path, init: str) -> None:
    model = PDFlow(replace(tiny(filter="lbm").model, filter_init=init))
    start_from(model, weights)
    assert isinstance(model.filter, LearnableBinaryMask)
    mask = FixedBinaryMask(16, 8).mask
    assert torch.allclose(model.filter.mask(), 0.02 + 0.96 * mask, atol=1e-6)


def test_a_mask_goes_on_as_a_matrix(
    tiny: MakeRecipe, pool: PatchPool, weights: Path, tmp_path: Path
) -> None:
    model = PDFlow(tiny(filter="lcc").model).eval()
    start_from(model, weights)
    assert isinstance(model.filter, LatentCodeConsistency)
    fixed = PDFlow(tiny().model).eval()
    start_from(fixed, weights)
    noisy = pool.sample(2, (0.05, 0.05), generator=torch.Generator().manual_seed(0)).noisy
    assert torch.allclose(model.denoise_patches(noisy), fixed.denoise_patches(noisy), atol=1e-5)

    save_model(tmp_path / "lcc.safetensors", model, {})
    again = PDFlow(tiny(filter="lcc").model)
    start_from(again, tmp_path / "lcc.safetensors")
    assert torch.equal(again.filter.weight, model.filter.weight)
    with pytest.raises(PdflowError, match="A mask cannot go on from"):
        start_from(PDFlow(tiny(filter="lbm").model), tmp_path / "lcc.safetensors")


def test_networks_that_differ_are_refused(tiny: MakeRecipe, weights: Path) -> None:
    for change, named in (({"hidden": 32}, "flow"), ({"condition_layers": 3}, "condition")):
        model = PDFlow(replace(tiny().model, **change))
        with pytest.raises(PdflowError, match=named):
            start_from(model, weights)
    with pytest.raises(PdflowError, match="No model"):
        start_from(PDFlow(tiny().model), "nothing.safetensors")


def test_shipped_weights_start_a_run() -> None:
    model = PDFlow(load_recipe("pdflow-fast").model)
    digest = hashlib.sha256(find_model("pdflow-fast").read_bytes()).hexdigest()
    assert start_from(model, "pdflow-fast") == digest


def test_a_network_goes_on_with_noise_conditioning(
    tiny: MakeRecipe, pool: PatchPool, tmp_path: Path
) -> None:
    """At first it does what it did, whatever the noise."""
    recipe = tiny(3)
    plain = PDFlow(replace(recipe.model, condition="graph", condition_layers=2)).eval()
    save_model(tmp_path / "plain.safetensors", plain, {})
    conditioned = PDFlow(replace(plain.config, noise_conditioning=True)).eval()
    start_from(conditioned, tmp_path / "plain.safetensors")
    noisy = pool.sample(2, (0.02, 0.02), generator=torch.Generator().manual_seed(0)).noisy
    for level in (0.01, 0.1):
        sigma = torch.full((2,), level)
        same = conditioned.denoise_patches(noisy, sigma=sigma)
        assert torch.allclose(same, plain.denoise_patches(noisy), atol=1e-5)
