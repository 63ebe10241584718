from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pdflow.kernels.farthest import farthest_points_torch


def fused(device: str, points: Tensor, count: int, start: int = 0) -> Tensor:
    from pdflow.kernels import farthest_triton

    return farthest_triton.farthest_points(points.to(device), count, start).cpu()


def clouds(batch: int, points: int, seed: int = 0) -> Tensor:
    return torch.randn(batch, points, 3, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("points", "count", "start"), [
    (37, 37, 3), (64, 20, 0), (300, 60, 299), (1, 1, 0), (2, 1, 1),
])  # fmt: skip
def test_equals_the_twin(device: str, points: int, count: int, start: int) -> None:
    given = clouds(3, points)
    rows = fused(device, given, count, start)
    assert rows.dtype == torch.long
    assert torch.equal(rows, farthest_points_torch(given, count, start))


def test_equals_the_twin_in_double_precision_where_nothing_is_nearly_equal(device: str) -> None:
    given = clouds(2, 150, 1)
    assert torch.equal(fused(device, given, 40), farthest_points_torch(given.double(), 40))


def test_coordinates_may_be_loaded_for_every_pick(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pdflow.kernels import farthest_triton

    given = clouds(2, 100, 2)
    monkeypatch.setattr(farthest_triton, "RESIDENT_POINTS", 64)
    assert torch.equal(fused(device, given, 30), farthest_points_torch(given, 30))


def test_of_points_equally_far_the_lowest_row_is_taken(device: str) -> None:
    axis = torch.arange(4.0)
    grid = torch.cartesian_prod(axis, axis, axis)[None].repeat(2, 2, 1)
    rows = fused(device, grid, 128)
    assert torch.equal(rows, farthest_points_torch(grid, 128))
    assert rows.sort(1).values.tolist() == [list(range(128))] * 2
    assert rows[:, 64:].tolist() == [list(range(64, 128))] * 2


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_points_that_are_not_finite_come_first_and_harm_no_others(device: str) -> None:
    given = clouds(1, 50, 3)
    given[0, 7], given[0, 11, 1] = float("nan"), float("inf")
    rows = fused(device, given, 20)
    assert torch.equal(rows, farthest_points_torch(given, 20))
    assert rows[0, 1:3].tolist() == [7, 11]
    kept = [row for row in range(50) if row not in (7, 11)]
    others = farthest_points_torch(given[:, kept], 18)[0]
    assert rows[0, [0, *range(3, 20)]].tolist() == [kept[row] for row in others]
