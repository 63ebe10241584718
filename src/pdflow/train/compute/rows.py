"""Rows of points, with a gradient whose bits do not depend on the order of sums."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def take_rows(points: Tensor, rows: Tensor) -> Tensor:
    """Rows (B, N) of points (B, S, D): (B, N, D).

    A GPU adds the gradients of a row that is taken twice in any order. They are rounded to
    multiples of a unit that makes the sums exact in double precision, as
    `pdflow.kernels.triton_exact` does in single precision.
    """
    taken: Tensor = _TakeRows.apply(points, rows)  # type: ignore[no-untyped-call]
    return taken


class _TakeRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, rows: Tensor) -> Tensor:
        places = rows[..., None].expand(-1, -1, points.shape[-1])
        ctx.save_for_backward(places)
        ctx.shape = points.shape
        return points.gather(1, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        terms = gradient.double()
        largest_sum = terms.abs().amax((1, 2), keepdim=True) * places.shape[1]
        anchor = torch.ldexp(torch.full_like(largest_sum, 1.5), torch.frexp(largest_sum).exponent)
        total = terms.new_zeros(ctx.shape)
        total.scatter_add_(1, places, (terms + anchor) - anchor)
        return total.to(gradient.dtype), None
