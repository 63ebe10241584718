from __future__ import annotations

import numpy as np
import pytest
import torch

from pdflow.kernels.normal import cpu

triton = pytest.importorskip("triton", reason="Triton is not installed")
tl = pytest.importorskip("triton.language")


@triton.jit
def words_kernel(keys_ptr, counters_ptr, words_ptr, COUNT: tl.constexpr):
    """Words (4, COUNT) of keys (COUNT,) and counters (4, COUNT)."""
    place = tl.arange(0, COUNT)
    a, b, c, d = tl.philox(
        tl.load(keys_ptr + place),
        tl.load(counters_ptr + place),
        tl.load(counters_ptr + COUNT + place),
        tl.load(counters_ptr + 2 * COUNT + place),
        tl.load(counters_ptr + 3 * COUNT + place),
        10,
    )
    tl.store(words_ptr + place, a.to(tl.int32, bitcast=True))
    tl.store(words_ptr + COUNT + place, b.to(tl.int32, bitcast=True))
    tl.store(words_ptr + 2 * COUNT + place, c.to(tl.int32, bitcast=True))
    tl.store(words_ptr + 3 * COUNT + place, d.to(tl.int32, bitcast=True))


def some_keys(count: int) -> np.ndarray:
    keys = np.random.default_rng(0).integers(0, 2**64, count, np.uint64)
    keys[:3] = 0, 1, 2**64 - 1
    return keys


def test_words_equal_those_on_a_cpu(device: str) -> None:
    keys = some_keys(256)
    counters = np.random.default_rng(1).integers(0, 2**32, (4, 256), np.uint32)
    counters[:, 2] = 2**32 - 1
    words = torch.empty(4, 256, dtype=torch.int32, device=device)
    words_kernel[(1,)](
        torch.from_numpy(keys.view(np.int64)).to(device),
        torch.from_numpy(counters.view(np.int32)).to(device),
        words,
        COUNT=256,
    )
    expected = [
        cpu.philox(key, *counter)
        for key, counter in zip(keys, counters.T.astype(np.uint64), strict=True)
    ]
    assert np.array_equal(words.cpu().numpy().view(np.uint32), np.array(expected, np.uint32).T)


@pytest.mark.parametrize("shape", [(1024, 2), (1,), (40, 5), (347, 3), (7, 0)])
def test_numbers_equal_those_on_a_cpu(device: str, shape: tuple[int, ...]) -> None:
    from pdflow.kernels.normal import triton_normal

    keys = some_keys(5)
    drawn = torch.full((5, *shape), torch.nan, device=device)
    triton_normal.fill(torch.from_numpy(keys.view(np.int64)).to(device), drawn)
    expected = np.empty((5, np.prod(shape)), np.float32)
    for key, numbers in zip(keys, expected, strict=True):
        cpu.fill(key, numbers)
    np.testing.assert_allclose(drawn.cpu().reshape(5, -1).numpy(), expected, atol=1e-5)


def test_nothing_is_drawn_without_keys(device: str) -> None:
    from pdflow.kernels.normal import triton_normal

    keys = torch.empty(0, dtype=torch.long, device=device)
    triton_normal.fill(keys, torch.empty(0, 40, 5, device=device))
