# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""The graph layers of an EdgeUnit on CUDA: their autograd functions."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from pdflow.kernels.edge import triton_max, triton_split
from pdflow.kernels.edge.triton_edges import Edges


def _forward(
    edges: Edges, bias: Tensor, precision: str, with_choice: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """`triton_max.forward`, or `triton_hopper.forward` if that supports the features."""
    if not _runs_hopper(edges.centre, precision):
        return triton_max.forward(edges, bias, precision, with_choice)
    from pdflow.kernels.edge import triton_hopper

    return triton_hopper.forward(edges, bias, with_choice)


def _backward(
    edges: Edges, choice: Tensor, active: Tensor, dout: Tensor, precision: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`triton_max.backward`, or `triton_hopper.backward` if that supports the features."""
    if not _runs_hopper(edges.centre, precision):
        return triton_max.backward(edges, choice, active, dout.contiguous(), precision)
    from pdflow.kernels.edge import triton_hopper

    return triton_hopper.backward(edges, choice, active, dout.contiguous())


def _runs_hopper(centre: Tensor, precision: str) -> bool:
    """Whether `triton_hopper` supports the features; it needs Triton 3.6 or newer."""
    if precision != "bf16" or centre.shape[-1] != 64 or not centre.is_cuda:
        return False
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    return version >= (3, 6) and torch.cuda.get_device_capability(centre.device)[0] == 9


class EdgeMax(torch.autograd.Function):
    """`pdflow.kernels.edge.edge_max` with its fused backward."""

    @staticmethod
    def forward(ctx, centre, neighbour, neighbours, weight, bias, precision):
        """(G, B, N, H) in the type of centre; arguments are contiguous."""
        edges = Edges(centre, neighbour, neighbours, weight)
        out, choice, active = _forward(edges, bias, precision, any(ctx.needs_input_grad))
        ctx.save_for_backward(*edges, choice, active)
        ctx.precision = precision
        return out

    @staticmethod
    def backward(ctx, dout):
        """Gradients of centre, neighbour, weight and bias."""
        *edges, choice, active = ctx.saved_tensors
        dcentre, dneighbour, dweight, dbias = _backward(
            Edges(*edges), choice, active, dout, ctx.precision
        )
        return dcentre, dneighbour.to(dcentre.dtype), None, dweight, dbias, None


class EdgePool(torch.autograd.Function):
    """`pdflow.kernels.edge.edge_pool` with its fused backward."""

    @staticmethod
    def forward(ctx, x, neighbours, w1, b1, w2, b2, inputs, flip, precision):
        """(G, B, N, H) and x; arguments are contiguous."""
        centre, neighbour = triton_split.forward(x, inputs, w1, b1, flip, precision)
        edges = Edges(centre, neighbour, neighbours, w2)
        out, choice, active = _forward(edges, b2, precision, any(ctx.needs_input_grad))
        ctx.save_for_backward(x, w1, *edges, choice, active)
        ctx.options = inputs, flip, precision
        ctx.set_materialize_grads(False)
        return out, x.view_as(x)

    @staticmethod
    def backward(ctx, dout, dx):
        """Gradients of x and of both layers."""
        if dout is None:
            return dx, None, None, None, None, None, None, None, None
        inputs, flip, precision = ctx.options
        x, w1, *edges, choice, active = ctx.saved_tensors
        dcentre, dneighbour, dw2, db2 = _backward(Edges(*edges), choice, active, dout, precision)
        more = None if dx is None else dx.contiguous()
        dx, dw1, db1 = triton_split.backward(
            x, inputs, w1, dcentre, dneighbour, more, flip, precision
        )
        return dx, None, dw1, db1, dw2, db2, None, None, None
