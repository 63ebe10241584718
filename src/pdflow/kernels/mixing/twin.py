"""`affine` and `mixing_maps` in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

Maps = tuple[Tensor, Tensor, Tensor]
"""A (L, C, C) and b (L, C) of maps x A + b, and the log-determinants (L,) of the forward maps."""


def affine_torch(x: Tensor, matrix: Tensor, bias: Tensor, relu: bool = False) -> Tensor:
    """`affine` in plain torch, for any device and type."""
    y = linear(x, matrix.mT, bias)
    return torch.relu(y) if relu else y


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
    """Maps x A of the channels, with float64 matrices (L, C, C), and the actnorms after them.

    inverse  the matrices and the result belong to the inverse maps
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
