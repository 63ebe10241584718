"""The twin picks what the compiled loop picks, in float64 row by row."""

from __future__ import annotations

import pytest
import torch

from pdflow.errors import PdflowError
from pdflow.geometry import farthest_point_sampling
from pdflow.kernels.farthest import farthest_points, farthest_points_torch


def clouds(batch: int, points: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(batch, points, 3, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize(("points", "count", "start"), [(200, 50, 0), (61, 61, 7), (1, 1, 0)])
def test_the_twin_equals_the_compiled_loop(points: int, count: int, start: int) -> None:
    given = clouds(3, points)
    rows = farthest_points_torch(given, count, start)
    assert rows.dtype == torch.long
    for cloud, picked in zip(given, rows, strict=True):
        assert picked.tolist() == farthest_point_sampling(cloud, count, start).tolist()
    assert torch.equal(farthest_points(given, count, start), rows)


def test_equal_points_come_last_in_the_order_of_their_rows() -> None:
    given = clouds(2, 10).repeat(1, 3, 1)
    rows = farthest_points_torch(given, 30)
    assert (rows[:, :10] < 10).all()
    assert rows[:, 10:].tolist() == [list(range(10, 30))] * 2


@pytest.mark.gpu
@pytest.mark.parametrize(("batch", "points"), [(2, 300), (1, 9000), (4, 9000), (4, 33_000)])
def test_clouds_stay_on_their_device(batch: int, points: int) -> None:
    given = clouds(batch, points).float()
    rows = farthest_points(given.cuda(), 40)
    assert rows.is_cuda
    assert torch.equal(rows.cpu(), farthest_points(given, 40))


def test_nothing_may_be_asked_for() -> None:
    assert farthest_points(clouds(2, 5), 0).shape == (2, 0)
    assert farthest_points(clouds(0, 5), 3).shape == (0, 3)


@pytest.mark.parametrize(("shape", "count", "start"), [
    ((2, 5, 3), 6, 0), ((2, 5, 3), -1, 0), ((2, 5, 3), 2, 5), ((2, 5, 2), 2, 0),
])  # fmt: skip
def test_what_is_not_there_cannot_be_sampled(
    shape: tuple[int, ...], count: int, start: int
) -> None:
    with pytest.raises(PdflowError, match="Cannot sample"):
        farthest_points(torch.zeros(shape), count, start)
