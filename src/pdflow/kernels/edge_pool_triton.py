# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""The graph layers of an EdgeUnit on CUDA, as torch's autograd sees them."""

from __future__ import annotations

import torch

from pdflow.kernels import edge_split_triton, edge_triton


class EdgeMax(torch.autograd.Function):
    """`pdflow.kernels.edge.edge_max` with its fused backward."""

    @staticmethod
    def forward(ctx, centre, neighbour, neighbours, weight, bias, precision):
        """(G, B, N, H) in the type of centre; arguments are contiguous."""
        out, choice, active = edge_triton.forward(
            centre, neighbour, neighbours, weight, bias, precision, any(ctx.needs_input_grad)
        )
        ctx.save_for_backward(centre, neighbour, neighbours, weight, choice, active)
        ctx.precision = precision
        return out

    @staticmethod
    def backward(ctx, dout):
        """Gradients of centre, neighbour, weight and bias."""
        centre, neighbour, neighbours, weight, choice, active = ctx.saved_tensors
        dcentre, dneighbour, dweight, dbias = edge_triton.backward(
            centre, neighbour, neighbours, weight, choice, active, dout.contiguous(), ctx.precision
        )
        return dcentre, dneighbour.to(dcentre.dtype), None, dweight, dbias, None


class EdgePool(torch.autograd.Function):
    """`pdflow.kernels.edge.edge_pool` with its fused backward."""

    @staticmethod
    def forward(ctx, x, neighbours, w1, b1, w2, b2, inputs, precision):
        """(G, B, N, H); arguments are contiguous."""
        centre, neighbour = edge_split_triton.forward(x, inputs, w1, b1, precision)
        out, choice, active = edge_triton.forward(
            centre, neighbour, neighbours, w2, b2, precision, any(ctx.needs_input_grad)
        )
        ctx.save_for_backward(x, w1, centre, neighbour, neighbours, w2, choice, active)
        ctx.options = inputs, precision
        return out

    @staticmethod
    def backward(ctx, dout):
        """Gradients of x and of both layers."""
        inputs, precision = ctx.options
        x, w1, centre, neighbour, neighbours, w2, choice, active = ctx.saved_tensors
        dcentre, dneighbour, dw2, db2 = edge_triton.backward(
            centre, neighbour, neighbours, w2, choice, active, dout.contiguous(), precision
        )
        dx, dw1, db1 = edge_split_triton.backward(x, inputs, w1, dcentre, dneighbour, precision)
        return dx, None, dw1, db1, dw2, db2, None, None
