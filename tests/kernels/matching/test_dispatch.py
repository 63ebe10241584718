"""Matchings against the best one."""

from __future__ import annotations

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from pdflow.kernels.matching import approximate_matching, auction_matching


def noisy_pair(noise: float, points: int = 256, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A curved patch (2, N, 3) and itself with noise, in another order."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(2, points, 3, generator=generator) - 0.5
    target[..., 2] = target[..., :2].square().sum(-1)
    order = torch.randperm(points, generator=generator)
    noisy = target + noise * torch.randn(target.shape, generator=generator)
    return noisy[:, order], target


def lengths(prediction: Tensor, target: Tensor, rows: Tensor) -> Tensor:
    """(B, N): distances of matched points."""
    return (prediction - target.gather(1, rows[..., None].expand_as(target))).norm(dim=-1)


def best_lengths(prediction: Tensor, target: Tensor) -> Tensor:
    costs = torch.cdist(prediction.double(), target.double()).numpy()
    best = torch.stack([torch.from_numpy(linear_sum_assignment(cost)[1]) for cost in costs])
    return lengths(prediction, target, best)


def assert_bijection(rows: Tensor) -> None:
    assert torch.equal(rows.sort(1).values, torch.arange(rows.shape[1]).expand_as(rows))


@pytest.mark.parametrize("noise", [0.001, 0.02, 0.06, 0.2])
def test_cost_is_close_to_the_least(noise: float) -> None:
    prediction, target = noisy_pair(noise)
    rows = approximate_matching(prediction, target)
    assert rows.dtype == torch.long
    assert_bijection(rows)
    found, best = lengths(prediction, target, rows), best_lengths(prediction, target)
    assert found.mean() < 1.01 * best.mean()
    assert found.max() < 1.5 * best.max()


@pytest.mark.parametrize("noise", [0.001, 0.02, 0.06, 0.2])
def test_an_auction_comes_close_with_few_targets_shared(noise: float) -> None:
    prediction, target = noisy_pair(noise)
    rows = auction_matching(prediction, target)
    found, best = lengths(prediction, target, rows), best_lengths(prediction, target)
    assert 0.96 < found.mean() / best.mean() < 1.03
    assert found.max() < 1.5 * best.max()
    assert min(len(set(patch.tolist())) for patch in rows) > 0.95 * rows.shape[1]


def test_every_point_finds_itself() -> None:
    _, target = noisy_pair(0)
    order = torch.randperm(target.shape[1], generator=torch.Generator().manual_seed(1))
    assert torch.equal(approximate_matching(target[:, order], target), order.expand(2, -1))


def test_patches_do_not_depend_on_each_other() -> None:
    prediction, target = noisy_pair(0.06)
    together = approximate_matching(prediction, target)
    assert torch.equal(together[1:], approximate_matching(prediction[1:], target[1:]))


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_predictions_that_collapsed_are_still_a_bijection(value: float) -> None:
    _, target = noisy_pair(0, 40)
    collapsed = torch.full_like(target, value)
    assert_bijection(approximate_matching(collapsed, target))
    shared = auction_matching(collapsed, target)
    assert 0 <= shared.min() <= shared.max() < 40


@pytest.mark.parametrize("points", [1, 2, 5])
def test_few_points_are_matched(points: int) -> None:
    prediction, target = noisy_pair(0.1, points)
    assert_bijection(approximate_matching(prediction, target))


def test_gradients_are_not_followed() -> None:
    prediction, target = noisy_pair(0.1, 20)
    rows = approximate_matching(prediction.requires_grad_(), target)
    assert not rows.requires_grad


@pytest.mark.gpu
def test_can_be_recorded_into_a_graph_and_replayed() -> None:
    prediction, target = (x.cuda() for x in noisy_pair(0.06))
    approximate_matching(prediction, target)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        rows = approximate_matching(prediction, target)
    for seed in range(3):
        prediction.copy_(noisy_pair(0.06, seed=seed)[0])
        graph.replay()
        assert torch.equal(rows, approximate_matching(prediction, target))
