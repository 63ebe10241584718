"""The augmentation module: its condition net and its gated couplings."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.kernels import Precision, apply_fused, default_precision, runs_triton
from pdflow.kernels.augmentation.twin import gated_couple_torch, neighbour_mean_torch
from pdflow.kernels.augmentation.weights import ConditionWeights, GatedWeights, Norm, Step

_FUSED_DIMS = 4
_FUSED_WIDTHS = (32, 64)
_FUSED_CHANNELS = 128

_ROOMY = 200 * 1024
"""Bytes of shared memory that hold all weights of the widest network in tf32."""


def neighbour_mean(points: Tensor, neighbours: Tensor, weights: ConditionWeights) -> Tensor:
    """Features (B, N, F): three layers per point, the mean over K neighbours, and the last layer.

    points      (B, N, D)
    neighbours  (B, N, K) rows of points

    The fused kernels run unless `torch.set_float32_matmul_precision` is "highest". They round to
    tf32 forward and to bf16 backward, but never round positions. For "medium" they return bf16.
    """
    precision = default_precision(points.dtype)
    if precision != "ieee" and _runs_condition_kernels(points, weights):
        from pdflow.kernels.augmentation.triton_condition import NeighbourMean

        result: Tensor = NeighbourMean.apply(
            points.contiguous(), neighbours, precision, *(weight.contiguous() for weight in weights)
        )  # type: ignore[no-untyped-call]
        return result
    return neighbour_mean_torch(points, neighbours, weights)


def gated_couple(
    x: Tensor,
    features: Tensor,
    weights: GatedWeights,
    norm: Norm | None,
    step: Step,
    total: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """y = (x + shift) sigmoid(scale) on M channels; the other C - M, kept, decide shift and scale.

    x         (B, N, C)
    features  (B, N, F) of the condition net, float32 or bf16
    total     (B, N) log-determinant terms of the couplings before
    returns   y (B, N, C), total plus the terms (B, N) of this coupling, and the features. Pass
              these to the next coupling: the backward kernels then add up their gradients

    The fused kernels run unless `torch.set_float32_matmul_precision` is "highest", and round to
    bf16 backward.
    """
    precision = default_precision(x.dtype)
    if precision != "ieee" and norm and _runs_gated_kernels(x, features, weights, precision):
        from pdflow.kernels.augmentation.triton_autograd import GatedCouple

        result: tuple[Tensor, Tensor, Tensor] = apply_fused(
            GatedCouple,
            x.contiguous(),
            features.contiguous(),
            None if total is None else total.contiguous(),
            norm,
            step,
            precision,
            *(weight.contiguous() for weight in weights if weight is not None),
        )
        return result
    y, terms = gated_couple_torch(x, features, weights, norm, step)
    return y, terms if total is None else total + terms, features


def _runs_condition_kernels(points: Tensor, weights: ConditionWeights) -> bool:
    if not runs_triton(points) or points.dtype != torch.float32:
        return False
    features, width = weights.last.shape
    return points.shape[-1] <= _FUSED_DIMS and width in _FUSED_WIDTHS and features in _FUSED_WIDTHS


def _runs_gated_kernels(
    x: Tensor, features: Tensor, weights: GatedWeights, precision: Precision
) -> bool:
    if not runs_triton(x) or x.dtype != torch.float32 or x.shape[-1] > _FUSED_CHANNELS:
        return False
    width = len(weights.lift)
    if width not in _FUSED_WIDTHS or features.shape[-1] != width:
        return False
    from pdflow.kernels.triton_launch import shared_memory

    return precision == "bf16" or width < _FUSED_WIDTHS[-1] or shared_memory(x.device) >= _ROOMY
