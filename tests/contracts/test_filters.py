"""Every registered filter keeps the contract, and so does one from outside the package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pdflow
from pdflow.config import FlowConfig, InferenceConfig
from pdflow.errors import PdflowError
from pdflow.flow.filters import FILTERS, Filter, register_filter
from pdflow.model import PDFlow
from pdflow.train.data import PatchPool
from pdflow.train.initial import start_from
from pdflow.train.loop import Trainer
from pdflow.train.losses import LossConfig
from pdflow.train.recipe import OptimConfig, Recipe
from pdflow.weights import load_model, save_model

D = 8
CONFIG = FlowConfig(
    edge_neighbours=(0, 0), augment_dims=D - 3, masked_dims=3, hidden=8, condition_neighbours=4,
    condition_hidden=8, condition_features=8, augment_hidden=8, patch_points=16,
    filter_init="authors",
)  # fmt: skip


class Squashed(Filter):
    """A filter that is not linear: z -> tanh(scale z)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))

    def forward(self, latent: Tensor) -> Tensor:
        return torch.tanh(self.scale * latent)

    def loss(self, filtered: Tensor, clean: Tensor | None = None) -> Tensor:
        return filtered.square().mean()


NAMES = [*FILTERS, "squashed"]


@pytest.fixture(autouse=True)
def squashed() -> Iterator[None]:
    """Register the filter from outside for one test."""
    register_filter("squashed")(lambda channels, masked, init: Squashed(channels))
    yield
    del FILTERS["squashed"]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    given: str = request.param
    return given


def _filter(name: str, init: str = "authors") -> Filter:
    """A filter whose parameters are not those it starts with."""
    torch.manual_seed(3)
    made = FILTERS[name](D, 3, init)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.rand_like(parameter))
    return made


@pytest.mark.parametrize("init", ["paper", "authors"])
def test_the_channel_map_is_what_the_module_computes(name: str, init: str) -> None:
    made, z = _filter(name, init), torch.randn(2, 5, D)
    filtered, channels = made(z), made.channel_map()
    assert filtered.shape == z.shape
    if channels is None:
        assert not torch.allclose(made(2 * z), 2 * filtered)
    else:
        assert channels.shape in [(D,), (D, D)]
        expected = z * channels if channels.ndim == 1 else z @ channels
        assert torch.allclose(filtered, expected, atol=1e-5)


def test_the_loss_is_a_finite_scalar_that_can_be_trained(name: str) -> None:
    made, z = _filter(name), torch.randn(2, 5, D)
    loss = made.loss(made(z), torch.randn(2, 5, D) if made.needs_clean_code else None)
    assert loss.shape == ()
    assert torch.isfinite(loss)
    learned = list(made.parameters())
    if not learned:
        assert loss == 0
        return
    loss.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in learned)
    assert any(p.grad.abs().max() > 0 for p in learned if p.grad is not None)


def test_weights_come_back_from_a_file(name: str, tmp_path: Path) -> None:
    model = PDFlow(replace(CONFIG, filter=name))
    model.filter = _filter(name)
    save_model(tmp_path / "model.safetensors", model, {})
    loaded = load_model(tmp_path / "model.safetensors")
    z = torch.randn(2, 5, D)
    assert type(loaded.filter) is type(model.filter)
    assert torch.equal(loaded.filter(z), model.filter(z))


@pytest.mark.parametrize("source", NAMES)
def test_a_filter_starts_near_another_or_says_why_not(
    name: str, source: str, tmp_path: Path
) -> None:
    first = PDFlow(replace(CONFIG, filter=source))
    first.filter = _filter(source)
    path = tmp_path / "first.safetensors"
    save_model(path, first, {})
    second = PDFlow(replace(CONFIG, filter=name))
    before = {key: value.clone() for key, value in second.filter.state_dict().items()}
    z = torch.randn(2, 5, D)
    refusal = _refusal(second, path)
    if refusal:
        assert name != source
        assert refusal.startswith(f"{path}: ")
        assert "\n" not in refusal
        return
    learned = list(second.filter.parameters())
    if learned:
        assert torch.allclose(second.filter(z), first.filter(z), atol=0.1)
    else:
        for key, value in second.filter.state_dict().items():
            assert torch.equal(value, before[key])


def _refusal(model: PDFlow, path: Path) -> str:
    try:
        start_from(model, path)
    except PdflowError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("name", "source"), [("lbm", "fbm"), ("lcc", "fbm"), ("lcc", "lbm")])
def test_masks_become_learnable_masks_and_matrices(name: str, source: str) -> None:
    first, second = _filter(source), _filter(name)
    second.start_from(first)
    z = torch.randn(2, 5, D)
    assert torch.allclose(second(z), first(z), atol=0.1)


def test_a_network_trains_and_is_used_after_it_was_saved(name: str, tmp_path: Path) -> None:
    """Two steps on a sphere, a file, then patches and a cloud through what was read."""
    points = torch.randn(400, 3, generator=torch.Generator().manual_seed(0)).double()
    sphere = (points / points.norm(dim=1, keepdim=True)).numpy()
    pool = PatchPool.cut([sphere], 8, 16, torch.Generator().manual_seed(0))
    recipe = Recipe(
        "contract",
        replace(CONFIG, filter=name),
        InferenceConfig(patch_radius=(1.0, 1.0), centred=True),
        loss=LossConfig(matching="paired"),
        optim=OptimConfig(batch=4, steps=2, warmup=1),
    )
    trainer = Trainer(recipe, pool, "cpu")
    before = {key: value.clone() for key, value in trainer.model.filter.named_parameters()}
    trainer.fit()
    assert trainer.step_count == 2
    assert int(trainer.skipped) == 0
    for key, value in trainer.model.filter.named_parameters():
        assert not torch.equal(value, before[key]), key
    save_model(tmp_path / "model.safetensors", trainer.averaged(), {})
    loaded = load_model(tmp_path / "model.safetensors")
    noisy = pool.sample(2, (0.02, 0.02), radius=1.0, centred=True).noisy
    with torch.no_grad():
        assert torch.equal(loaded.denoise_patches(noisy), trainer.averaged().denoise_patches(noisy))
    cloud = sphere + 0.02 * np.random.default_rng(0).normal(size=sphere.shape)
    moved = pdflow.denoise(cloud, model=loaded, iterations=1)
    assert moved.shape == cloud.shape
    assert np.isfinite(moved).all()
    assert not np.array_equal(moved, cloud)


def test_a_name_is_registered_once_and_must_be_known() -> None:
    with pytest.raises(PdflowError, match="There is a filter 'lcc' already"):
        register_filter("lcc")(lambda channels, masked, init: Squashed(channels))
    with pytest.raises(PdflowError, match="choose one of fbm, lbm, lcc, squashed"):
        FlowConfig(filter="median")
