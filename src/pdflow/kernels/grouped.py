"""Affine maps of G groups at once, with stacked weights."""

from __future__ import annotations

import torch
from torch import Tensor

Layer = tuple[Tensor, Tensor]
"""Weight (G, in, out) and bias (G, out) of G groups."""


def grouped_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (G | 1, B, N, in) times weight (G, in, out), plus bias (G, out) -> (G, B, N, out)."""
    groups = len(weight)
    _, batch, points, inputs = x.shape
    flat = x.reshape(len(x), batch * points, inputs).expand(groups, -1, -1)
    if bias is None:
        product = torch.bmm(flat, weight)
    else:
        product = torch.baddbmm(bias[:, None], flat, weight)
    return product.view(groups, batch, points, -1)
