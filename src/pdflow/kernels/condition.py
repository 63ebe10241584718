"""Condition net of the augmentation module: a network on positions, averaged over neighbours."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from pdflow.kernels import Precision, default_precision, runs_triton

_FUSED_DIMS = 4
_FUSED_WIDTHS = (32, 64)


class ConditionWeights(NamedTuple):
    """Weights (outputs, inputs) and biases of four layers, as in nn.Linear: D -> H -> H -> H -> F.

    After the second and the third there is a relu.
    """

    lift: Tensor
    lift_bias: Tensor
    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor
    last: Tensor
    last_bias: Tensor


def neighbour_mean(
    points: Tensor,
    neighbours: Tensor,
    weights: ConditionWeights,
    precision: Precision | None = None,
) -> Tensor:
    """Features (B, N, F): three layers for each point, the mean over K neighbours, the last layer.

    points      (B, N, D)
    neighbours  (B, N, K) rows of points
    precision   of products; by default that of `torch.set_float32_matmul_precision`. Fused kernels
                run unless it is "ieee", round to tf32 forward and to bf16 backward; positions
                themselves are not rounded. For "bf16" they return bf16.
    """
    precision = precision or default_precision(points.dtype)
    if precision != "ieee" and _fused(points, weights):
        from pdflow.kernels.condition_triton import NeighbourMean

        result: Tensor = NeighbourMean.apply(
            points.contiguous(), neighbours, precision, *(weight.contiguous() for weight in weights)
        )  # type: ignore[no-untyped-call]
        return result
    return neighbour_mean_torch(points, neighbours, weights)


def neighbour_mean_torch(points: Tensor, neighbours: Tensor, weights: ConditionWeights) -> Tensor:
    """`neighbour_mean` in plain torch, for any device and type."""
    w = weights
    h = torch.relu(linear(linear(points, w.lift, w.lift_bias), w.first, w.first_bias))
    h = torch.relu(linear(h, w.second, w.second_bias))
    return linear(gather_points(h, neighbours).mean(2), w.last, w.last_bias)


def gather_points(x: Tensor, neighbours: Tensor) -> Tensor:
    """Rows of x (B, N, C) at neighbours (B, N, K) -> (B, N, K, C)."""
    batch, points, k = neighbours.shape
    index = neighbours.reshape(batch, points * k, 1).expand(-1, -1, x.shape[-1])
    return x.gather(1, index).view(batch, points, k, -1)


def _fused(points: Tensor, weights: ConditionWeights) -> bool:
    if not runs_triton(points) or points.dtype != torch.float32:
        return False
    features, width = weights.last.shape
    return points.shape[-1] <= _FUSED_DIMS and width in _FUSED_WIDTHS and features in _FUSED_WIDTHS
