from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pdflow.kernels.graph.twin import nearest_torch


def fused_nearest(device: str, queries: Tensor, points: Tensor, k: int) -> Tensor:
    """The kernel's rows, with many queries per program: an interpreted one is slow to start."""
    from pdflow.kernels.graph import triton_nearest

    per_program = 16 if device == "cpu" else 1
    return triton_nearest.nearest(queries.to(device), points.to(device), k, per_program).cpu()


def cloud(batch: int, points: int, seed: int = 0) -> Tensor:
    return torch.randn(batch, points, 3, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("points", "k"), [(37, 5), (100, 1), (150, 32), (70, 40), (64, 64)])
def test_equals_the_twin(device: str, points: int, k: int) -> None:
    patches = cloud(2, points)
    found = fused_nearest(device, patches, patches, k)
    assert found.dtype == torch.long
    assert torch.equal(found, nearest_torch(patches, patches, k))


def test_queries_may_differ_from_points(device: str) -> None:
    queries, points = cloud(1, 21, 1), cloud(1, 50, 2)
    found = fused_nearest(device, queries, points, 6)
    assert torch.equal(found, nearest_torch(queries, points, 6))


def test_equal_points_come_in_the_order_of_their_rows(device: str) -> None:
    patch = torch.zeros(1, 100, 3)
    patch[0, :10] = cloud(1, 10)[0]
    found = fused_nearest(device, patch, patch, 12)
    assert torch.equal(found[0, 50], torch.arange(10, 22))
    assert found[0, :10, 0].tolist() == list(range(10))


@pytest.mark.parametrize(("queries", "points"), [(100, 33), (31, 150), (64, 64)])
def test_one_nearest_equals_the_twin(device: str, queries: int, points: int) -> None:
    a, b = cloud(3, queries, 3), cloud(3, points, 4)
    found = fused_nearest(device, a, b, 1)
    assert found.shape == (3, queries, 1)
    assert found.dtype == torch.long
    assert torch.equal(found, nearest_torch(a, b, 1))


def test_the_lowest_of_equally_near_rows_is_taken(device: str) -> None:
    points = cloud(1, 10, 5).repeat(1, 7, 1)
    found = fused_nearest(device, points, points, 1)[0, :, 0]
    assert found.tolist() == list(range(10)) * 7


@pytest.mark.parametrize("k", [1, 5, 20])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_is_not_finite_gets_valid_rows(device: str, k: int) -> None:
    queries, points = cloud(3, 20, 6), cloud(3, 40, 7)
    queries[0, 0], queries[0, 1, 2] = float("nan"), float("inf")
    points[1, 3:30] = float("nan")
    points[2] = float("-inf")
    rows = fused_nearest(device, queries, points, k)
    assert rows.min() >= 0
    assert rows.max() < 40
    assert all(len(set(row.tolist())) == k for row in rows.flatten(0, 1))
    assert torch.equal(rows[0, 2:], nearest_torch(queries, points, k)[0, 2:])
