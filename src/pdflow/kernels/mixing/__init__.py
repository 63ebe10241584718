"""Affine maps of channels, the same for all points: permutation layers, actnorms and filters."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.kernels import default_precision, runs_triton
from pdflow.kernels.mixing.twin import Maps, affine_torch, mixing_maps_torch

_FUSED_CHANNELS = 64


def affine(x: Tensor, matrix: Tensor, bias: Tensor, *, relu: bool = False) -> Tensor:
    """x A + b, or relu(x A + b), for x (B, N, C), A (C, D) and b (D,) -> (B, N, D).

    For the fused kernels, x may be bf16; all else is fp32. If torch's setting lets a GPU round
    products, the gradient of x is rounded to tf32, and that of A as the setting says.
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
    """Permutation layer and actnorm of L blocks, Table 5, as affine maps, or their inverses.

    lu            (L, C, C) factors of W, packed as in `InvertibleLinear`
    mu, sigma     (L, C) of the actnorm
    signs, order  (L, C) signs of diag U, and order of rows

    The matrices are small and act on coordinates, so the twin computes them in float64. The fused
    kernel, which runs if products may be rounded, uses float64 for inverses only.
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
