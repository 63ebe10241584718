"""The permutation layer and the actnorm of each block as one affine map, for all blocks at once."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.flow.actnorm import ActNorm
from pdflow.flow.bijection import Bijection
from pdflow.flow.permutation import InvertibleLinear
from pdflow.kernels.mixing import mixing_maps
from pdflow.kernels.mixing.twin import with_norms

Map = tuple[Tensor, Tensor]
"""A (C, C) and b (C,) of an affine map x A + b of the channels of every point."""


def affine_maps(
    mixings: list[Bijection], norms: list[ActNorm], inverse: bool = False
) -> tuple[list[Map], Tensor]:
    """Each linear map of the channels, and the actnorm after it, as one affine map.

    mixings, norms  of the L blocks, in their order
    inverse         return the inverse maps
    returns         the maps, and the sum of the log-determinants of all forward maps for one point
    """
    mu, sigma = (torch.stack([getattr(norm, name) for norm in norms]) for name in ("mu", "sigma"))
    if all(isinstance(mixing, InvertibleLinear) for mixing in mixings):
        lu, signs, order = (
            torch.stack([getattr(mixing, name) for mixing in mixings])
            for name in ("lu", "signs", "order")
        )
        matrices, biases, log_dets = mixing_maps(lu, mu, sigma, signs, order, inverse)
    else:
        rows = torch.eye(mu.shape[-1], dtype=torch.float64, device=mu.device)[None]
        steps = [mixing.untransform if inverse else mixing.transform for mixing in mixings]
        orders = torch.cat([step(rows, None)[0] for step in steps])
        no_change = rows.new_zeros(len(steps))
        matrices, biases, log_dets = with_norms(orders, no_change, mu, sigma, inverse)
    return list(zip(matrices.unbind(), biases.unbind(), strict=True)), log_dets.sum()
