from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pdflow.kernels.graph import _fused_nearest, nearest_torch


@pytest.fixture
def fused(device: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The device, with many queries per program: an interpreted program is slow to start."""
    from pdflow.kernels import graph_triton

    launch = graph_triton.nearest
    if device == "cpu":
        monkeypatch.setattr(graph_triton, "nearest", lambda q, p, k: launch(q, p, k, 16))
    return device


def cloud(batch: int, points: int, seed: int = 0) -> Tensor:
    return torch.randn(batch, points, 3, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("points", "k"), [(37, 5), (100, 1), (150, 32), (70, 40), (64, 64)])
def test_equals_the_twin(fused: str, points: int, k: int) -> None:
    patches = cloud(2, points)
    found = _fused_nearest(patches.to(fused), patches.to(fused), k)
    assert found.dtype == torch.long
    assert torch.equal(found.cpu(), nearest_torch(patches, patches, k))


def test_queries_may_differ_from_points(fused: str) -> None:
    queries, points = cloud(1, 21, 1), cloud(1, 50, 2)
    found = _fused_nearest(queries.to(fused), points.to(fused), 6)
    assert torch.equal(found.cpu(), nearest_torch(queries, points, 6))


def test_equal_points_come_in_the_order_of_their_rows(fused: str) -> None:
    patch = torch.zeros(1, 100, 3)
    patch[0, :10] = cloud(1, 10)[0]
    found = _fused_nearest(patch.to(fused), patch.to(fused), 12).cpu()
    assert torch.equal(found[0, 50], torch.arange(10, 22))
    assert found[0, :10, 0].tolist() == list(range(10))


def test_operator_is_registered_as_torch_compile_needs_it(fused: str) -> None:
    patch = cloud(1, 16).to(fused)
    torch.library.opcheck(_fused_nearest, (patch, patch, 3))


@pytest.mark.parametrize(("queries", "points"), [(100, 33), (31, 150), (64, 64)])
def test_one_nearest_equals_the_twin(device: str, queries: int, points: int) -> None:
    a, b = cloud(3, queries, 3), cloud(3, points, 4)
    found = _fused_nearest(a.to(device), b.to(device), 1)
    assert found.shape == (3, queries, 1)
    assert found.dtype == torch.long
    assert torch.equal(found.cpu(), nearest_torch(a, b, 1))


def test_the_lowest_of_equally_near_rows_is_taken(device: str) -> None:
    points = cloud(1, 10, 5).repeat(1, 7, 1).to(device)
    found = _fused_nearest(points, points, 1)[0, :, 0]
    assert found.tolist() == list(range(10)) * 7


def test_queries_that_are_not_finite_get_a_valid_row(device: str) -> None:
    queries = torch.full((1, 2, 3), float("nan"))
    queries[0, 1] = float("inf")
    assert _fused_nearest(queries.to(device), cloud(1, 40).to(device), 1).max() < 40


def test_one_nearest_is_registered_as_torch_compile_needs_it(device: str) -> None:
    patch = cloud(2, 16).to(device)
    torch.library.opcheck(_fused_nearest, (patch, patch, 1))
