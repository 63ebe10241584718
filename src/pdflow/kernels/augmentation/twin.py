"""`neighbour_mean` and `gated_couple` in plain torch."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import batch_norm, elu, linear, logsigmoid

from pdflow.kernels.augmentation.weights import (
    LOG_SCALE_SPEED,
    ConditionWeights,
    GatedWeights,
    Norm,
    Step,
)


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


def gated_couple_torch(
    x: Tensor, features: Tensor, weights: GatedWeights, norm: Norm | None, step: Step
) -> tuple[Tensor, Tensor]:
    """`gated_couple` in plain torch, for any device and type; returns y and its own terms."""
    keep_first, drawn, squash = step
    sizes = [weights.lift.shape[1], len(weights.last) // 2]
    first, second = x.split(sizes if keep_first else sizes[::-1], dim=-1)
    kept, moved = (first, second) if keep_first else (second, first)
    shift, scale = shift_and_scale(kept, features, weights, norm)
    moved = (moved + shift) * torch.sigmoid(scale)
    y = torch.cat([kept, moved] if keep_first else [moved, kept], -1)
    terms = logsigmoid(scale).sum(-1)
    if drawn:
        terms = terms + 0.5 * (x.square() + math.log(2 * math.pi)).sum(-1)
    if squash:
        terms = terms + (logsigmoid(y) + logsigmoid(-y)).sum(-1)
        y = torch.sigmoid(y)
    return y, terms


def shift_and_scale(
    kept: Tensor, features: Tensor, weights: GatedWeights, norm: Norm | None
) -> tuple[Tensor, Tensor]:
    """The network of a gated coupling: shift and raw scale (B, N, M)."""
    w = weights
    h = linear(kept, w.lift, w.lift_bias)
    u = linear(_both_elus(h), w.inner, w.inner_bias)
    gated = linear(_both_elus(u), w.gate, w.gate_bias)
    features = _both_elus(features.to(h.dtype))
    gated = gated + linear(features, w.condition, w.condition_bias)
    value, gate = gated.chunk(2, dim=-1)
    h = h + value * torch.sigmoid(gate)
    if norm is not None:
        options = (norm.mean, norm.var, w.gamma, w.beta, norm.training, norm.momentum, norm.eps)
        h = batch_norm(h.flatten(0, 1), *options).view_as(h)
    out = linear(h, w.last, w.last_bias) * torch.exp(LOG_SCALE_SPEED * w.log_scale)
    return out[..., 0::2], out[..., 1::2]


def _both_elus(x: Tensor) -> Tensor:
    """Concatenated ELU: (.., C) -> (.., 2 C)."""
    return elu(torch.cat([x, -x], -1))
