from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pdflow.adapters import adapt
from pdflow.errors import PdflowError

KEPT = [4, 0, 2, 2]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int32])
def test_the_type_is_kept(
    dtype: torch.dtype, points: np.ndarray, passed: Callable[..., Any]
) -> None:
    given = torch.from_numpy(points).to(dtype).requires_grad_(dtype.is_floating_point)
    clean = passed(given)
    assert clean.dtype == (dtype if dtype.is_floating_point else torch.float64)
    assert not clean.requires_grad
    moved = given.detach().double() + torch.tensor([1.0, 0, 0])
    assert torch.allclose(clean.double(), moved, atol=0.02)


def test_other_columns_follow_their_points(points: np.ndarray, passed: Callable[..., Any]) -> None:
    given = torch.from_numpy(np.column_stack([points, np.arange(50)]))
    clean = passed(given, rows=KEPT)
    assert clean[:, 3].tolist() == KEPT
    assert given[:, 0].tolist() == points[:, 0].tolist()


def test_added_values_are_tensors() -> None:
    adapter = adapt(torch.zeros(2, 3, dtype=torch.float16))
    assert adapter.column(np.ones((2, 3))).dtype == torch.float16
    assert adapter.column(np.ones(2, np.uint8)).dtype == torch.uint8


def test_other_shapes_are_refused() -> None:
    with pytest.raises(PdflowError, match=r"This torch.Tensor has shape \(5, 2\)"):
        adapt(torch.zeros(5, 2)).read()


@pytest.mark.gpu
def test_the_device_is_kept(points: np.ndarray, passed: Callable[..., Any]) -> None:
    assert passed(torch.from_numpy(points).cuda(), rows=KEPT).is_cuda
    assert adapt(torch.zeros(2, 3).cuda()).column(np.ones(2)).is_cuda
