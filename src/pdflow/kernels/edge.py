"""The middle of an EdgeUnit: gather, add, relu, product, relu, max over neighbours."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from pdflow.kernels import runs_triton
from pdflow.kernels.graph import Incoming

CHUNK_EDGES = 8192
"""Edges worked on at once where no gradient is needed: their features stay in the cache."""

Precision = Literal["ieee", "tf32", "bf16"]
"""How the operands of the product are rounded; sums are always fp32."""

_TORCH_PRECISION: dict[str, Precision] = {"highest": "ieee", "high": "tf32", "medium": "bf16"}
_FUSED_WIDTHS = (32, 64, 128)
_FUSED_NEIGHBOURS = 64


def edge_max(
    centre: Tensor,
    neighbour: Tensor,
    neighbours: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    precision: Precision | None = None,
    incoming: Incoming | None = None,
) -> Tensor:
    """max_k relu(relu(centre_i + neighbour_j(i,k)) W + b), layers F1 (rest), F2 and M1 of Table 6.

    centre      (G, B, N, H) the part of F1 that depends on the point itself
    neighbour   (G, B, N, H) the part of F1 that depends on the neighbour
    neighbours  (B, N, K) int32 or int64 rows of the same patch
    weight      (G, H, H), bias (G, H): layer F2 of each of the G groups
    precision   of the fused kernels; by default that of `torch.set_float32_matmul_precision`,
                and "bf16" for bf16 inputs. "bf16" rounds the inputs, too.
    incoming    `incoming_edges(neighbours)`: lets the fused backward sum in a fixed order
    returns     (G, B, N, H) in the type of centre

    relu is monotonic, so the maximum is taken first and bias and relu come after it.
    """
    fused = runs_triton(centre) and centre.shape[-1] in _FUSED_WIDTHS
    if not fused or neighbours.shape[-1] > _FUSED_NEIGHBOURS:
        return edge_max_torch(centre, neighbour, neighbours, weight, bias)
    if precision is None:
        precision = _default_precision(centre.dtype)
    dtype = centre.dtype
    if precision == "bf16":
        centre, neighbour = centre.bfloat16(), neighbour.bfloat16()
    starts, edges = incoming or (None, None)
    needs_gradient = torch.is_grad_enabled() and any(
        x.requires_grad for x in (centre, neighbour, weight, bias)
    )
    out: Tensor = _fused_forward(
        centre, neighbour, neighbours, weight, bias, starts, edges, precision, needs_gradient
    )[0]
    return out.to(dtype)


def edge_max_torch(
    centre: Tensor, neighbour: Tensor, neighbours: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """`edge_max` in plain torch, for any device and type."""
    groups, batch, points, width = centre.shape
    offset = torch.arange(batch, device=neighbours.device)[:, None, None] * points
    rows = (neighbours + offset).reshape(batch * points, -1)
    centre = centre.reshape(groups, batch * points, 1, width)
    neighbour = neighbour.reshape(groups, batch * points, width)
    k = rows.shape[1]
    step = batch * points
    if not torch.is_grad_enabled():
        step = max(1, CHUNK_EDGES // k)
    best = []
    for start in range(0, batch * points, step):
        part = rows[start : start + step]
        edges = neighbour.index_select(1, part.reshape(-1)).view(groups, len(part), k, width)
        hidden = torch.relu(edges + centre[:, start : start + step])
        product = torch.bmm(hidden.view(groups, -1, width), weight)
        best.append(product.view(groups, len(part), k, width).amax(2))
    pooled = torch.relu(torch.cat(best, 1) + bias[:, None])
    return pooled.view(groups, batch, points, width)


def _default_precision(dtype: torch.dtype) -> Precision:
    if dtype == torch.bfloat16:
        return "bf16"
    return _TORCH_PRECISION[torch.get_float32_matmul_precision()]


@torch.library.custom_op(
    "pdflow::edge_max_forward",
    mutates_args=(),
    schema="(Tensor centre, Tensor neighbour, Tensor neighbours, Tensor weight, Tensor bias, "
    "Tensor? starts, Tensor? edges, str precision, bool with_choice) -> (Tensor, Tensor, Tensor)",
)
def _fused_forward(
    centre: Tensor,
    neighbour: Tensor,
    neighbours: Tensor,
    weight: Tensor,
    bias: Tensor,
    starts: Tensor | None,
    edges: Tensor | None,
    precision: str,
    with_choice: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output, choices and active edges; starts and edges only wait here for the backward."""
    from pdflow.kernels import edge_triton

    return edge_triton.forward(
        centre.contiguous(),
        neighbour.contiguous(),
        _rows_together(neighbours),
        weight.contiguous(),
        bias.contiguous(),
        precision,
        with_choice,
    )


@_fused_forward.register_fake
def _(centre: Tensor, _: Tensor, neighbours: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    from pdflow.kernels import edge_triton

    return edge_triton.empty_results(centre, neighbours, with_choice=rest[-1])


@torch.library.custom_op(
    "pdflow::edge_max_backward",
    mutates_args=(),
    schema="(Tensor centre, Tensor neighbour, Tensor neighbours, Tensor weight, Tensor choice, "
    "Tensor active, Tensor dout, Tensor? starts, Tensor? edges, str precision) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
)
def _fused_backward(
    centre: Tensor,
    neighbour: Tensor,
    neighbours: Tensor,
    weight: Tensor,
    choice: Tensor,
    active: Tensor,
    dout: Tensor,
    starts: Tensor | None,
    edges: Tensor | None,
    precision: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from pdflow.kernels import edge_triton

    incoming = None if starts is None or edges is None else (starts, edges)
    dcentre, dneighbour, dweight, dbias = edge_triton.backward(
        centre.contiguous(),
        neighbour.contiguous(),
        _rows_together(neighbours),
        weight.contiguous(),
        choice,
        active,
        dout.contiguous(),
        incoming,
        precision,
    )
    return dcentre, dneighbour, dweight.to(weight.dtype), dbias.to(weight.dtype)


@_fused_backward.register_fake
def _(centre: Tensor, neighbour: Tensor, _: Tensor, weight: Tensor, *__: Any) -> tuple[Tensor, ...]:
    dense = [x.new_empty(x.shape) for x in (centre, neighbour)]
    return *dense, weight.new_empty(weight.shape), weight.new_empty(weight.shape[:2])


def _rows_together(neighbours: Tensor) -> Tensor:
    """The graph with the neighbours of a point side by side; slices of K stay views."""
    return neighbours if neighbours.stride(-1) == 1 else neighbours.contiguous()


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    centre, neighbour, neighbours, weight, _, starts, edges, ctx.precision, _ = inputs
    _, choice, active = output
    ctx.save_for_backward(centre, neighbour, neighbours, weight, choice, active, starts, edges)


def _backward(ctx: Any, dout: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    *kept, starts, edges = ctx.saved_tensors
    gradients = _fused_backward(*kept, dout, starts, edges, ctx.precision)
    dcentre, dneighbour, dweight, dbias = gradients
    return dcentre, dneighbour, None, dweight, dbias, None, None, None, None


_fused_forward.register_autograd(_backward, setup_context=_keep_for_backward)
