"""Invertible 1x1 convolution and actnorm of all blocks of a flow as affine maps."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.kernels import default_precision, runs_triton

_FUSED_CHANNELS = 64

Maps = tuple[Tensor, Tensor, Tensor]
"""A (L, C, C) and b (L, C) of maps x A + b, and the log-determinants (L,) of the forward maps."""


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
            from pdflow.kernels.mixing_triton import MixingMaps

            maps: Maps = MixingMaps.apply(
                *(tensor.contiguous() for tensor in (lu, mu, sigma, signs, order)),
                inverse,
                precision,
            )  # type: ignore[no-untyped-call]
            return maps
    return mixing_maps_torch(lu, mu, sigma, signs, order, inverse)


def mixing_maps_torch(
    lu: Tensor, mu: Tensor, sigma: Tensor, signs: Tensor, order: Tensor, inverse: bool = False
) -> Maps:
    """`mixing_maps` in plain torch, for any device and type."""
    lu = lu.double()
    log_pivots = lu.diagonal(dim1=-2, dim2=-1)
    identity = torch.eye(lu.shape[-1], dtype=lu.dtype, device=lu.device)
    lower = lu.tril(-1) + identity
    upper = lu.triu(1) + torch.diag_embed(signs * torch.exp(log_pivots))
    if inverse:
        rows = identity[order]
        half = torch.linalg.solve_triangular(lower, rows, upper=False, unitriangular=True)
        weights = torch.linalg.solve_triangular(upper, half, upper=True)
    else:
        weights = torch.empty_like(lu).scatter(1, order[..., None].expand_as(lu), lower @ upper)
    return with_norms(weights.mT, log_pivots.sum(-1), mu, sigma, inverse)


def with_norms(
    matrices: Tensor, log_dets: Tensor, mu: Tensor, sigma: Tensor, inverse: bool
) -> Maps:
    """Maps of the channels, x A with float64 matrices (L, C, C), and the actnorms after them.

    inverse  the matrices, and what is returned, belong to the inverse maps
    """
    dtype = mu.dtype
    mu, sigma = mu.double(), sigma.double()
    if inverse:
        biases = (mu[:, None] @ matrices)[:, 0]
        matrices = torch.exp(sigma)[..., None] * matrices
    else:
        shrink = torch.exp(-sigma)
        biases = -mu * shrink
        matrices = matrices * shrink[:, None]
    return matrices.to(dtype), biases.to(dtype), (log_dets - sigma.sum(-1)).to(dtype)
