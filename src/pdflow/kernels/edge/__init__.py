"""The graph layers of an EdgeUnit, Table 6: products, gather, relu, maximum over neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.kernels import Precision, apply_fused, default_precision, runs_triton
from pdflow.kernels.edge.twin import edge_max_torch
from pdflow.kernels.grouped import Layer, grouped_product

_FUSED_WIDTHS = (32, 64, 128)
_FUSED_NEIGHBOURS = 64
_FUSED_POINTS = 2**15


def edge_pool(
    x: Tensor,
    neighbours: Tensor,
    first: Layer,
    second: Layer,
    *,
    inputs: int,
    flip: bool = False,
) -> tuple[Tensor, Tensor]:
    """max_k relu(relu([h, n_k, n_k - h] W1 + b1) W2 + b2), layers F1, F2 and M1 of Table 6.

    x           (B, N, C); h is the first `inputs` channels of a point, and n_k those of its
                neighbours
    neighbours  (B, N, K) int32 or int64 rows of the same patch
    first       W1 (G, 3 inputs, H) and b1 (G, H) of each of the G groups
    second      W2 (G, H, H) and b2 (G, H)
    flip        count channels from the last
    returns     (G, B, N, H), in bf16 if that is the precision of the fused kernels; and x. Pass
                this x to the next layer: the backward kernel then adds up its gradients

    F1 is linear before its relu: h (A - C) + n (B + C) + b1 with the row blocks A, B, C of W1. So
    nothing of size N x K x 3C is ever built.
    """
    width = second[0].shape[-1]
    precision = default_precision(x.dtype)
    if precision != "ieee" and x.dtype == torch.float32 and _fused(x, neighbours, width):
        from pdflow.kernels.edge.triton_autograd import EdgePool

        pooled: tuple[Tensor, Tensor] = apply_fused(
            EdgePool,
            x.contiguous(),
            _rows_together(neighbours),
            *(tensor.contiguous() for tensor in (*first, *second)),
            inputs,
            flip,
            precision,
        )
        return pooled
    own, other, difference = first[0].chunk(3, dim=1)
    h = (x.flip(-1) if flip else x)[None, ..., :inputs]
    centre = grouped_product(h, own - difference, first[1])
    neighbour = grouped_product(h, other + difference)
    return edge_max(centre, neighbour, neighbours, *second, precision=precision), x


def edge_max(
    centre: Tensor,
    neighbour: Tensor,
    neighbours: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    precision: Precision | None = None,
) -> Tensor:
    """max_k relu(relu(centre_i + neighbour_j(i,k)) W + b): the part of `edge_pool` per edge.

    centre      (G, B, N, H) the part of F1 that depends on the point itself
    neighbour   (G, B, N, H) the part of F1 that depends on the neighbour
    neighbours  (B, N, K) int32 or int64 rows of the same patch
    weight      (G, H, H), bias (G, H): layer F2 of each of the G groups
    precision   of the fused kernels; by default "bf16" for bf16 inputs, else the setting of
                `torch.set_float32_matmul_precision`. "bf16" also rounds the inputs
    returns     (G, B, N, H) in the type of centre

    relu is monotonic, so the maximum comes first, then bias and relu.
    """
    if not _fused(centre, neighbours, centre.shape[-1]):
        return edge_max_torch(centre, neighbour, neighbours, weight, bias)
    from pdflow.kernels.edge.triton_autograd import EdgeMax

    precision = precision or default_precision(centre.dtype)
    dtype = centre.dtype
    if precision == "bf16":
        centre, neighbour = centre.bfloat16(), neighbour.bfloat16()
    out: Tensor = apply_fused(
        EdgeMax,
        centre.contiguous(),
        neighbour.contiguous(),
        _rows_together(neighbours),
        weight.contiguous(),
        bias.contiguous(),
        precision,
    )
    return out.to(dtype)


def _fused(x: Tensor, neighbours: Tensor, width: int) -> bool:
    if not runs_triton(x):
        return False
    _, points, k = neighbours.shape
    return width in _FUSED_WIDTHS and k <= _FUSED_NEIGHBOURS and points <= _FUSED_POINTS


def _rows_together(neighbours: Tensor) -> Tensor:
    """The graph with contiguous rows; slices of K stay views."""
    return neighbours if neighbours.stride(-1) == 1 else neighbours.contiguous()
