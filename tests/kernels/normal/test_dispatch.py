from __future__ import annotations

import numpy as np
import torch

from pdflow.kernels.normal import cpu, normal


def test_every_key_gets_its_own_numbers() -> None:
    keys = torch.tensor([5, -5, 2**60])
    drawn = normal(keys, (40, 3))
    assert drawn.shape == (3, 40, 3)
    assert drawn.dtype == torch.float32
    for key, numbers in zip(keys.numpy().view(np.uint64), drawn, strict=True):
        expected = np.empty(120, np.float32)
        cpu.fill(key, expected)
        assert np.array_equal(numbers.numpy().ravel(), expected)


def test_there_may_be_nothing_to_draw() -> None:
    assert normal(torch.tensor([1, 2]), (40, 0)).shape == (2, 40, 0)
    assert normal(torch.empty(0, dtype=torch.long), (40, 3)).shape == (0, 40, 3)
