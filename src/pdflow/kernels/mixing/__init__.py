"""Affine maps of the channels of all points, as in permutation layers and actnorms."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.kernels import default_precision, runs_triton
from pdflow.kernels.mixing.twin import Maps, affine_torch, mixing_maps_torch

_FUSED_CHANNELS = 64


def affine(x: Tensor, matrix: Tensor, bias: Tensor, *, relu: bool = False) -> Tensor:
    """x A + b, or relu(x A + b), for x (B, N, C), A (C, D) and b (D,) -> (B, N, D).

    x may be bf16 where the fused kernels run; all else keeps fp32. Where a GPU may round products,
    the gradient of x is rounded to tf32, and that of A as asked for.
    """
    fused = matrix.dtype == torch.float32 and max(matrix.shape) <= _FUSED_CHANNELS
    precision = default_precision(matrix.dtype)
    if fused and runs_triton(x) and precision != "ieee":
        from pdflow.kernels.mixing.triton_affine import Affine

        result: Tensor = Affine.apply(
            x.contiguous(), matrix.contiguous(), bias.contiguous(), relu, precision
        )  # type: ignore[no-untyped-call]
        return result
    return affine_torch(x.to(matrix.dtype), matrix, bias, relu)


def mixing_maps(
    lu: Tensor, mu: Tensor, sigma: Tensor, signs: Tensor, order: Tensor, inverse: bool = False
) -> Maps:
    """The maps of L blocks, or their inverses.

    lu         (L, C, C) factors of W, packed as `InvertibleLinear` keeps them, with the signs
               (L, C) of diag U and the order (L, C) of rows
    mu, sigma  (L, C) of the actnorm, Table 5

    Matrices are small and what they do to coordinates is exact: all is worked out in float64. The
    fused kernel, which runs where products may be rounded, keeps float64 for inverses.
    """
    if runs_triton(lu) and lu.dtype == torch.float32 and lu.shape[-1] <= _FUSED_CHANNELS:
        precision = default_precision(lu.dtype)
        if precision != "ieee":
            from pdflow.kernels.mixing.triton_maps import MixingMaps

            maps: Maps = MixingMaps.apply(
                *(tensor.contiguous() for tensor in (lu, mu, sigma, signs, order)),
                inverse,
                precision,
            )  # type: ignore[no-untyped-call]
            return maps
    return mixing_maps_torch(lu, mu, sigma, signs, order, inverse)
