"""The inference form of a network: the same function, patch by patch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from pdflow.backends.compiled.flow import Spans
from pdflow.backends.compiled.network import CompiledNetwork
from pdflow.config import FlowConfig
from pdflow.model import PDFlow
from pdflow.train.recipe import load_recipe

POINTS = 45
TINY = FlowConfig(
    edge_neighbours=(12, 5, 0), augment_dims=6, hidden=16, masked_dims=3, condition_neighbours=4,
    condition_hidden=8, condition_features=10, augment_hidden=12, patch_points=POINTS,
)  # fmt: skip

SETTINGS = {
    "affine": {},
    "additive": {"coupling": "additive"},
    "point-wise": {"edge_neighbours": (0, 0)},
    "no augmentation": {"augment_dims": 0, "masked_dims": 1},
    "no graph at all": {"augment_dims": 0, "masked_dims": 1, "edge_neighbours": (0,)},
    "widths that fill no vector": {"hidden": 13, "condition_hidden": 5, "augment_dims": 7},
    "wide": {"hidden": 70, "edge_neighbours": (8,)},
    "edge condition": {"condition": "edge"},
    "graph condition": {"condition": "graph", "condition_layers": 3},
    "graph condition and affine map": {
        "condition": "graph", "condition_layers": 2, "augment_flow": "affine",
    },
    "absolute condition and affine map": {"augment_flow": "affine"},
    "no normalisation": {"augment_norm": "none", "augment_steps": 2},
    "identity at the start": {"permutation": "inv1x1-identity"},
    "random permutation": {"permutation": "random"},
    "reverse permutation": {"permutation": "reverse"},
    "lbm": {"filter": "lbm"},
    "lbm of the authors": {"filter": "lbm", "filter_init": "authors"},
    "fbm": {"filter": "fbm"},
    "mlp decoder": {"decoder": "mlp"},
}  # fmt: skip


def network(config: FlowConfig, seed: int = 0) -> PDFlow:
    """A network whose every parameter and statistic matters."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = PDFlow(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        for name, buffer in model.named_buffers():
            if "running" in name:
                buffer.add_(0.5 * torch.rand(buffer.shape, generator=generator))
    return model


def test_equals_a_network_that_is_told_the_noise() -> None:
    config = replace(
        TINY, condition="graph", condition_layers=2, augment_flow="affine", noise_conditioning=True
    )
    model = network(config)
    points, eps = patch(config)
    inputs = [torch.from_numpy(array)[None] for array in (points, eps)]
    results = []
    for sigma in (0.0, 0.01, 0.1):
        result = CompiledNetwork(model)(points, eps, sigma=sigma)
        with torch.inference_mode():
            expected = model.denoise_patches(*inputs, torch.tensor([sigma]))[0].numpy()
        np.testing.assert_allclose(result, expected, atol=2e-5)
        results.append(result)
    assert np.abs(results[1] - results[2]).max() > 1e-3


def patch(config: FlowConfig, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(points)
    shape = (points, config.point_dims)
    eps = rng.normal(size=(points, config.augment_dims))
    return rng.normal(size=shape).astype(np.float32), eps.astype(np.float32)


def plain(model: PDFlow, points: np.ndarray, eps: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        batch = torch.from_numpy(points)[None], torch.from_numpy(eps)[None]
        return model.denoise_patches(*batch)[0].numpy()


@pytest.mark.parametrize("setting", SETTINGS)
def test_equals_the_network(setting: str) -> None:
    config = replace(TINY, **SETTINGS[setting])
    model = network(config)
    points, eps = patch(config)
    given = points.copy(), eps.copy()
    result = CompiledNetwork(model)(points, eps)
    np.testing.assert_allclose(result, plain(model, points, eps), atol=2e-5)
    assert np.abs(result - points).max() > 0.01
    assert np.array_equal(points, given[0])
    assert np.array_equal(eps, given[1])


@pytest.mark.parametrize("preset", ["paper-lcc", "paper-fbm"])
def test_equals_the_networks_of_the_paper(preset: str) -> None:
    torch.manual_seed(0)
    model = PDFlow(load_recipe(preset).model).eval()
    points, eps = patch(model.config, 300)
    result = CompiledNetwork(model)(points, eps)
    np.testing.assert_allclose(result, plain(model, points, eps), atol=2e-5)


@pytest.mark.parametrize("points", [1, 3, 11])
def test_patches_smaller_than_a_neighbourhood(points: int) -> None:
    model = network(TINY)
    noisy, eps = patch(TINY, points)
    np.testing.assert_allclose(
        CompiledNetwork(model)(noisy, eps), plain(model, noisy, eps), atol=2e-5
    )


def saturate(model: PDFlow, swing: float) -> None:
    """Drive scales to within about `swing` of their limits, some up, some down."""
    with torch.no_grad():
        for name, parameter in model.flow.named_parameters():
            if name.endswith(("third.bias", "layers.3.bias")):
                signs = torch.arange(parameter.shape[1]) % 2 * 2.0 - 1
                parameter[0] = signs / swing


def watch(fast: CompiledNetwork, config: FlowConfig) -> list[Spans]:
    spans: Spans = {}
    fast(*patch(config), spans)
    return [spans]


def test_saturated_scales_are_replaced_by_constants() -> None:
    model = network(TINY)
    saturate(model, 2e-4)
    full = CompiledNetwork(model)
    constant = full.with_constant_scales(watch(full, TINY))
    assert full.is_affine
    assert not constant.is_affine
    points, eps = patch(TINY, 40)
    difference = np.abs(constant(points, eps) - full(points, eps)).max()
    assert 0 < difference < 1e-3 * np.abs(full(points, eps) - points).max()


def test_ordinary_scales_are_not() -> None:
    full = CompiledNetwork(network(TINY))
    same = full.with_constant_scales(watch(full, TINY))
    points, eps = patch(TINY, 40)
    assert same.is_affine
    assert np.array_equal(same(points, eps), full(points, eps))


def test_each_coupling_is_judged_by_itself() -> None:
    model = network(TINY)
    last = list(list(model.flow)[2])[4]
    saturate(model, 2e-4)
    with torch.no_grad():
        last.unit.layers[3].bias.zero_()
    full = CompiledNetwork(model)
    mixed = full.with_constant_scales(watch(full, TINY))
    assert mixed.is_affine
    points, eps = patch(TINY, 40)
    assert not np.array_equal(mixed(points, eps), full(points, eps))


def test_one_patch_where_scales_move_is_enough_to_keep_them() -> None:
    model = network(TINY)
    saturate(model, 2e-4)
    full = CompiledNetwork(model)
    points, eps = patch(TINY)
    calm: Spans = {}
    full(points * 0, eps * 0, calm)
    moving: Spans = {}
    full(points * 1e4, eps, moving)
    assert not full.with_constant_scales([calm]).is_affine
    assert full.with_constant_scales([calm, moving]).is_affine


def test_additive_networks_have_no_scales() -> None:
    full = CompiledNetwork(network(replace(TINY, coupling="additive")))
    assert not full.is_affine
    assert watch(full, TINY) == [{}]
