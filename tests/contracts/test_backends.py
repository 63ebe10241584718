"""What every backend must do: the function of `PDFlow.denoise_patches`, patch by patch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from pdflow.backends import BACKENDS, Backend, make_backend, register_backend
from pdflow.backends.draws import EpsDraws
from pdflow.config import FlowConfig
from pdflow.errors import PdflowError
from pdflow.model import PDFlow

CONFIG = FlowConfig(
    edge_neighbours=(8, 0), augment_dims=5, hidden=16, masked_dims=2, condition_neighbours=4,
    condition_hidden=8, condition_features=8, augment_hidden=8, patch_points=40,
    filter_init="authors",
)  # fmt: skip
NETWORKS = {
    "affine": CONFIG,
    "additive": replace(CONFIG, coupling="additive"),
    "no augmentation": replace(CONFIG, augment_dims=0, masked_dims=1),
    "lbm": replace(CONFIG, filter="lbm"),
    "fbm": replace(CONFIG, filter="fbm"),
    "conditioned": replace(CONFIG, augment_flow="affine", noise_conditioning=True),
}


@pytest.fixture(params=sorted(BACKENDS))
def backend_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def patches() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(7, 40, 3))


def network(config: FlowConfig) -> PDFlow:
    torch.manual_seed(0)
    return PDFlow(config).eval()


def run(
    backend: Backend, patches: np.ndarray, seed: int | None = None, sigma: np.ndarray | None = None
) -> np.ndarray:
    eps = None if seed is None else EpsDraws(seed)
    return backend.run(patches, eps, sigma, lambda done: None)


def expected(model: PDFlow, patches: np.ndarray, seed: int | None, sigma: np.ndarray | None):
    """What the definition of the network gives."""
    points = torch.from_numpy(patches).float()
    eps = torch.zeros(*points.shape[:2], model.config.augment_dims)
    if seed is not None:
        for patch, drawn in enumerate(eps):
            EpsDraws(seed).fill(patch, drawn)
    noise = None if sigma is None else torch.from_numpy(sigma).float()
    with torch.inference_mode():
        return model.denoise_patches(points, eps, noise).double().numpy()


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("kind", NETWORKS)
def test_it_computes_what_the_network_defines(
    backend_name: str, kind: str, seed: int | None, patches: np.ndarray
) -> None:
    model = network(NETWORKS[kind])
    sigma = None
    if model.config.noise_conditioning:
        sigma = np.geomspace(0.001, 0.5, len(patches))
    clean = run(make_backend(model, backend_name), patches, seed, sigma)
    assert clean.dtype == np.float32
    np.testing.assert_allclose(clean, expected(model, patches, seed, sigma), atol=2e-5)


def test_a_patch_depends_on_its_number_the_seed_and_its_noise_alone(
    backend_name: str, patches: np.ndarray
) -> None:
    backend = make_backend(network(NETWORKS["conditioned"]), backend_name)
    sigma = np.geomspace(0.001, 0.5, len(patches))
    result = run(backend, patches, 0, sigma)
    np.testing.assert_allclose(run(backend, patches[:4], 0, sigma[:4]), result[:4], atol=1e-6)
    assert np.abs(run(backend, patches, 1, sigma) - result).max() > 1e-4
    other = run(backend, patches, 0, sigma[::-1].copy())
    moved = np.abs(other - result).max(axis=(1, 2))
    assert moved[3] < 1e-6
    assert np.delete(moved, 3).min() > 1e-6


def test_the_same_run_gives_the_same_bits(backend_name: str, patches: np.ndarray) -> None:
    backend = make_backend(network(CONFIG), backend_name)
    assert np.array_equal(run(backend, patches, 5), run(backend, patches, 5))


def test_input_is_left_alone_and_may_lie_in_memory_in_any_order(
    backend_name: str, patches: np.ndarray
) -> None:
    backend = make_backend(network(CONFIG), backend_name)
    before = patches.copy()
    result = run(backend, np.asfortranarray(patches), 0)
    assert np.array_equal(patches, before)
    assert np.array_equal(run(backend, patches, 0), result)


def test_every_patch_is_reported(backend_name: str, patches: np.ndarray) -> None:
    backend = make_backend(network(CONFIG), backend_name)
    done: list[float] = []
    backend.run(patches, None, None, done.append)
    assert sum(done) == len(patches)
    assert backend.run(patches[:0], None, None, done.append).shape == (0, 40, 3)


def test_an_error_in_the_caller_stops_the_work(backend_name: str, patches: np.ndarray) -> None:
    calls = []

    def interrupt(done: float) -> None:
        calls.append(done)
        raise KeyboardInterrupt

    backend = make_backend(network(CONFIG), backend_name)
    with pytest.raises(KeyboardInterrupt):
        backend.run(np.repeat(patches, 20, axis=0), None, None, interrupt)
    assert len(calls) == 1


def test_a_missing_noise_level_is_refused(backend_name: str, patches: np.ndarray) -> None:
    backend = make_backend(network(NETWORKS["conditioned"]), backend_name)
    with pytest.raises(PdflowError, match=r"pass their sigma\.$"):
        run(backend, patches)


@pytest.fixture
def restored() -> Iterator[None]:
    from pdflow import backends

    before = dict(backends.BACKENDS), dict(backends._FOR_DEVICE)
    yield
    backends.BACKENDS.clear()
    backends.BACKENDS.update(before[0])
    backends._FOR_DEVICE.clear()
    backends._FOR_DEVICE.update(before[1])


@pytest.mark.usefixtures("restored")
def test_one_from_outside_denoises_clouds() -> None:
    import pdflow

    class Still:
        def __init__(self, model: PDFlow) -> None:
            self.calls = 0

        def run(self, patches, eps, sigma, progress):  # type: ignore[no-untyped-def]
            progress(len(patches))
            return patches

    register_backend("still", Still, device="cpu")
    noisy = np.random.default_rng(0).random((300, 3)) * [1, 1, 0.1]
    assert np.abs(pdflow.denoise(noisy, device="cpu") - noisy).max() < 1e-7
    with pytest.raises(PdflowError, match="no backend 'other': choose one of compiled, torch"):
        make_backend(network(CONFIG), "other")
