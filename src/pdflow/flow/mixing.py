"""Permutation layer and actnorm of all blocks of a flow as affine maps, made together."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.flow.actnorm import ActNorm
from pdflow.flow.bijection import Bijection
from pdflow.flow.permutation import InvertibleLinear

Map = tuple[Tensor, Tensor]
"""A (C, C) and b (C,) of an affine map x A + b of the channels of every point."""


def affine_maps(
    mixings: list[Bijection], norms: list[ActNorm], inverse: bool = False
) -> tuple[list[Map], Tensor]:
    """Each linear map of the channels, and the actnorm after it, as one affine map.

    inverse  give the inverse maps
    returns  the maps, and the sum of the log-determinants of all forward maps for one point

    Matrices are small and what they do to coordinates is exact: all is worked out in float64.
    """
    mu, sigma = (torch.stack([getattr(norm, name) for norm in norms]) for name in ("mu", "sigma"))
    dtype = mu.dtype
    mu, sigma = mu.double(), sigma.double()
    matrices, log_dets = _matrices(mixings, mu.shape[-1], mu.device, inverse)
    log_det = -sigma.sum() if log_dets is None else log_dets.sum() - sigma.sum()
    if inverse:
        biases = (mu[:, None] @ matrices)[:, 0]
        matrices = torch.exp(sigma)[..., None] * matrices
    else:
        shrink = torch.exp(-sigma)
        biases = -mu * shrink
        matrices = matrices * shrink[:, None]
    pairs = zip(matrices.to(dtype).unbind(), biases.to(dtype).unbind(), strict=True)
    return list(pairs), log_det.to(dtype)


def _matrices(
    mixings: list[Bijection], channels: int, device: torch.device, inverse: bool
) -> tuple[Tensor, Tensor | None]:
    """Matrices (L, C, C) so that maps are x @ A, and log-determinants (L,) where there are any."""
    identity = torch.eye(channels, dtype=torch.float64, device=device)
    if not all(isinstance(mixing, InvertibleLinear) for mixing in mixings):
        rows = identity[None]
        steps = [mixing.untransform if inverse else mixing.transform for mixing in mixings]
        return torch.cat([step(rows, None)[0] for step in steps]), None
    lu, signs, order = (
        torch.stack([getattr(mixing, name) for mixing in mixings])
        for name in ("lu", "signs", "order")
    )
    lu = lu.double()
    log_pivots = lu.diagonal(dim1=-2, dim2=-1)
    lower = lu.tril(-1) + identity
    upper = lu.triu(1) + torch.diag_embed(signs * torch.exp(log_pivots))
    if inverse:
        rows = identity[order]
        half = torch.linalg.solve_triangular(lower, rows, upper=False, unitriangular=True)
        weights = torch.linalg.solve_triangular(upper, half, upper=True)
    else:
        weights = torch.empty_like(lu).scatter(1, order[..., None].expand_as(lu), lower @ upper)
    return weights.mT, log_pivots.sum(-1)
