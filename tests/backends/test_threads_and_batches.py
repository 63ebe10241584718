"""Patches spread over threads, and over batches."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest
import torch

from pdflow.backends import make_backend
from pdflow.backends.batches import TorchBackend
from pdflow.backends.compiled.backend import CompiledBackend
from pdflow.backends.draws import EpsDraws
from pdflow.config import FlowConfig
from pdflow.model import PDFlow

CONFIG = FlowConfig(
    edge_neighbours=(8, 0), augment_dims=5, hidden=16, masked_dims=2, condition_neighbours=4,
    condition_hidden=8, condition_features=8, augment_hidden=8, patch_points=40,
)  # fmt: skip


@pytest.fixture
def model() -> PDFlow:
    torch.manual_seed(0)
    return PDFlow(CONFIG).eval()


@pytest.fixture
def patches() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(7, 40, 3))


def run(model: PDFlow, patches: np.ndarray, seed: int = 0, **options: int) -> np.ndarray:
    return CompiledBackend(model, **options).run(patches, EpsDraws(seed), None, lambda done: None)


def saturated(model: PDFlow) -> PDFlow:
    with torch.no_grad():
        for name, parameter in model.flow.named_parameters():
            if name.endswith(("third.bias", "layers.3.bias")):
                parameter[0] = 500.0
    return model


def test_same_bits_again_and_for_any_number_of_threads(model: PDFlow, patches: np.ndarray) -> None:
    expected = run(model, patches)
    assert expected.dtype == np.float32
    for threads in (1, 2, 5):
        assert np.array_equal(run(model, patches, threads=threads), expected)


def test_same_bits_where_constant_scales_are_skipped(model: PDFlow, patches: np.ndarray) -> None:
    saturated(model)
    expected = run(model, patches)
    assert not np.array_equal(run(model, patches, skip_constant_scales=False), expected)
    for threads in (1, 3):
        assert np.array_equal(run(model, patches, threads=threads), expected)


@pytest.mark.parametrize("eps", [None, EpsDraws(3)])
@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_batches_give_what_threads_give(
    model: PDFlow, patches: np.ndarray, eps: EpsDraws | None, size: int
) -> None:
    expected = CompiledBackend(model).run(patches, eps, None, lambda done: None)
    done: list[float] = []
    clean = TorchBackend(model, batch=size).run(patches, eps, None, done.append)
    np.testing.assert_allclose(clean, expected, atol=2e-5)
    assert sum(done) == len(patches)
    assert max(done) <= size


@pytest.mark.gpu
@pytest.mark.parametrize("eps", [None, EpsDraws(3)])
def test_a_gpu_gives_what_threads_give(
    model: PDFlow, patches: np.ndarray, eps: EpsDraws | None
) -> None:
    expected = CompiledBackend(model).run(patches, eps, None, lambda done: None)
    backend = make_backend(model.cuda())
    assert isinstance(backend, TorchBackend)
    backend.batch = 3
    result = backend.run(patches, eps, None, lambda done: None)
    np.testing.assert_allclose(result, expected, atol=1e-4)
    assert np.array_equal(backend.run(patches, eps, None, lambda done: None), result)


def test_ordinary_scales_are_never_skipped(model: PDFlow, patches: np.ndarray) -> None:
    exact = run(model, patches, skip_constant_scales=False)
    assert np.array_equal(run(model, patches), exact)


def test_equal_patches_get_other_draws(model: PDFlow, patches: np.ndarray) -> None:
    same = run(model, np.repeat(patches[:1], 2, axis=0))
    assert not np.array_equal(same[0], same[1])


def test_any_seed_is_good(model: PDFlow, patches: np.ndarray) -> None:
    results = [run(model, patches[:1], seed) for seed in (0, -1, 2**63, 2**80 + 1)]
    assert all(np.isfinite(result).all() for result in results)
    assert not np.array_equal(results[0], results[1])


def test_threads_of_torch_are_left_as_they_were(model: PDFlow, patches: np.ndarray) -> None:
    before = torch.get_num_threads()
    found = []
    try:
        torch.set_num_threads(3)
        run(model, patches)
        assert torch.get_num_threads() == 3
        later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        later.start()
        later.join()
    finally:
        torch.set_num_threads(before)
    assert found == [3]


def test_nothing_but_inputs_and_outputs_is_kept(model: PDFlow) -> None:
    rng = np.random.default_rng(0)

    def peak(count: int) -> int:
        patches = rng.normal(size=(count, 512, 3))
        tracemalloc.start()
        run(model, patches, threads=1)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(1)
    output = 512 * 3 * 8
    assert peak(90) - peak(10) < 1.3 * 80 * output
