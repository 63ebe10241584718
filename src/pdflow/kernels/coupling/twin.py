"""`couple` in plain torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pdflow.kernels.coupling.direction import Direction
from pdflow.kernels.grouped import Layer, grouped_product


def couple_torch(
    x: Tensor,
    layers: Sequence[Layer],
    kept: int,
    factor: float,
    features: Tensor | None,
    direction: Direction,
) -> tuple[Tensor, Tensor | None]:
    """`couple` in plain torch, for any device and type; factor is 2 clamp / pi.

    returns  y (B, N, C) and the terms (B, N) of this coupling, None where there is no scale
    """
    inverse, flip_in, flip_out = direction
    first, moved = (x.flip(-1) if flip_in else x).tensor_split([kept], dim=-1)
    h = first[None] if features is None else features
    for weight, bias in layers[:-1]:
        h = torch.relu(grouped_product(h, weight, bias))
    groups = grouped_product(h, *layers[-1])
    shift, terms = groups[-1], None
    if len(groups) == 1:
        moved = moved + shift if inverse else moved - shift
    else:
        scale = factor * torch.atan(groups[0])
        moved = moved * torch.exp(scale) + shift if inverse else (moved - shift) * torch.exp(-scale)
        terms = scale.sum(-1) if inverse else -scale.sum(-1)
    y = torch.cat([first, moved], -1)
    return y.flip(-1) if flip_out else y, terms
