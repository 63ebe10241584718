# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""`triton_max` for Hopper GPUs, bf16 and H = 64, with registers laid out by hand.

By default, Triton loads rows in one layout, multiplies in another and sums in a third, so each step
along the edges moves them through shared memory several times. With the layouts of
`triton_hopper_layout` nothing moves, and a step needs no barrier.

The backward pass has two kernels, for features and for weights: a single one would wait for its own
atomics at every step.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper

from pdflow.kernels import sums_repeat
from pdflow.kernels.edge.triton_asm import (
    ADD_AND_RELU,
    REPLACE_LOW_BITS,
    ROUND_PAIR,
    SELECT_EQUAL,
)
from pdflow.kernels.edge.triton_edges import Edges
from pdflow.kernels.edge.triton_hopper_layout import (
    NODES_PER_WARP,
    SHARED,
    H,
    in_rows,
    left_operand,
    line_layout,
    product_layout,
    row_layout,
    shared_weight,
)
from pdflow.kernels.edge.triton_list import list_edges
from pdflow.kernels.triton_exact import anchors

NODES = 64
FORWARD_NODES = 256  # of one patch, so that the features of neighbours stay in the L1 cache
WARPS = NODES // NODES_PER_WARP
REGISTERS = 168  # of a thread, so that three programs of the backward fit on a multiprocessor
WEIGHT_PROGRAMS = 3

CLOSED = gl.constexpr(255)
NO_EDGE_BITS = gl.constexpr(0x437E)  # of NO_EDGE, 254, in bf16


@gluon.jit
def _hidden(centre, neighbour):
    """relu(centre + neighbour), two numbers at a time."""
    return gl.inline_asm_elementwise(
        ADD_AND_RELU, "=r,r,r", [centre, neighbour], dtype=gl.bfloat16, is_pure=True, pack=2,
    )  # fmt: skip


@gluon.jit
def _tagged(value, k):
    """fp32 values with k in place of their low 6 bits, (value & -64) | k."""
    bits = gl.inline_asm_elementwise(
        REPLACE_LOW_BITS, "=r,r,r", [value.to(gl.int32, bitcast=True), k], dtype=gl.int32,
        is_pure=True, pack=1,
    )  # fmt: skip
    return bits.to(gl.float32, bitcast=True)


@gluon.jit
def _as_bf16(choice):
    """Choices as bf16 numbers, which hold them exactly, two in one register."""
    return gl.inline_asm_elementwise(
        ROUND_PAIR, "=r,r,r", [choice.to(gl.float32)], dtype=gl.bfloat16, is_pure=True, pack=2,
    )  # fmt: skip


@gluon.jit
def _where_chosen(choice, edge, dout):
    """dout where the maximum chose the edge, else 0."""
    k = edge.to(gl.int16).to(gl.bfloat16, bitcast=True)
    return gl.inline_asm_elementwise(
        SELECT_EQUAL, "=r,r,r,r", [choice, k, dout], dtype=gl.bfloat16, is_pure=True, pack=2,
    )  # fmt: skip


@gluon.jit
def _either(a, b):
    return a | b


@gluon.jit
def edge_forward_kernel(
    centre_ptr, neighbour_ptr, graph_ptr, weight_ptr, bias_ptr, out_ptr, choice_ptr, active_ptr,
    graph_patch_stride, graph_node_stride, points,
    K: gl.constexpr, TILE: gl.constexpr, CHOICE: gl.constexpr,
):  # fmt: skip
    """TILE nodes of one patch and group; k stays in the low bits of the products."""
    ROWS: gl.constexpr = row_layout(TILE)
    PRODUCT: gl.constexpr = product_layout(TILE)
    patch = gl.program_id(1)
    group = gl.program_id(2)
    first = (group * gl.num_programs(1) + patch).to(gl.int64) * points
    column = gl.arange(0, H, gl.SliceLayout(0, ROWS))
    row = gl.program_id(0) * TILE + gl.arange(0, TILE, gl.SliceLayout(1, ROWS))
    inside = row < points
    here = first * H + (row[:, None] * H + column[None, :])
    graph = graph_ptr + patch.to(gl.int64) * graph_patch_stride + row * graph_node_stride
    neighbours = neighbour_ptr + first * H
    centre = gl.load(centre_ptr + here, mask=inside[:, None], other=0.0)
    weight = shared_weight(weight_ptr + group * H * H, TILE)
    best = gl.full([TILE, H], float("-inf"), gl.float32, PRODUCT)
    zero = gl.zeros([TILE, H], gl.float32, PRODUCT)
    # Load the features of the next edge during the work on this one.
    other = gl.load(graph, mask=inside, other=0).to(gl.int32)
    next_rows = gl.load(neighbours + (other[:, None] * H + column[None, :]))
    other = gl.load(graph + (1 if K > 1 else 0), mask=inside, other=0).to(gl.int32)
    for k in range(K):
        rows = next_rows
        next_rows = gl.load(neighbours + (other[:, None] * H + column[None, :]))
        other = gl.load(graph + gl.minimum(k + 2, K - 1), mask=inside, other=0).to(gl.int32)
        product = hopper.warpgroup_mma(
            left_operand(_hidden(centre, rows)), weight, zero, use_acc=False
        )
        best = gl.maximum(best, _tagged(product, k) if CHOICE else product)
    best = in_rows(best)
    bits = best.to(gl.int32, bitcast=True)
    if CHOICE:
        best = (bits & -64).to(gl.float32, bitcast=True)
    pooled = best + gl.load(bias_ptr + group * H + column).to(gl.float32)[None, :]
    gl.store(out_ptr + here, gl.maximum(pooled, 0.0).to(gl.bfloat16), mask=inside[:, None])
    if CHOICE:
        is_open = pooled > 0
        choice = bits & 63
        stored = gl.where(is_open, choice, CLOSED).to(gl.uint8)
        gl.store(choice_ptr + here, stored, mask=inside[:, None])
        word: gl.constexpr = active_ptr.dtype.element_ty
        one = gl.full([TILE, H], 1, word, ROWS)
        active = gl.reduce(gl.where(is_open, one << choice.to(word), 0), 1, _either)
        gl.store(active_ptr + first + row, active, mask=inside)


@gluon.jit
def edge_backward_features_kernel(
    centre_ptr, neighbour_ptr, weight_ptr, choice_ptr, dout_ptr, list_ptr, lengths_ptr,
    anchors_ptr, dcentre_ptr, dneighbour_ptr, points,
    K: gl.constexpr, TILE: gl.constexpr, EXACT: gl.constexpr,
):  # fmt: skip
    """Gradients of the features, for TILE nodes of one patch and group.

    EXACT  whether the terms of dneighbour are rounded such that their sums are exact
    """
    ROWS: gl.constexpr = row_layout(TILE)
    PRODUCT: gl.constexpr = product_layout(TILE)
    group = gl.program_id(2)
    patch = (group * gl.num_programs(1) + gl.program_id(1)).to(gl.int64)
    row = gl.arange(0, TILE, gl.SliceLayout(1, ROWS))
    column = gl.arange(0, H, gl.SliceLayout(0, ROWS))
    node = gl.program_id(0) * TILE + row
    inside = (node < points)[:, None]
    base = patch * points * H
    here = base + (node[:, None] * H + column[None, :])
    centre = gl.load(centre_ptr + here, mask=inside, other=0.0)
    choice = _as_bf16(gl.load(choice_ptr + here, mask=inside, other=CLOSED))
    dout = gl.load(dout_ptr + here, mask=inside, other=0.0)
    transposed = shared_weight(weight_ptr + group * H * H, TILE).permute([1, 0])
    dcentre = gl.zeros([TILE, H], gl.float32, ROWS)
    if EXACT:
        anchor = gl.load(anchors_ptr + patch)
    zero = gl.zeros([TILE, H], gl.float32, PRODUCT)
    at = patch * gl.num_programs(0) + gl.program_id(0)
    edges = list_ptr + at * K * TILE + row
    neighbours = (neighbour_ptr + base) + column[None, :]
    dneighbours = (dneighbour_ptr + base) + column[None, :]
    # Load the features of the next edge during the work on this one.
    next_edge = gl.load(edges)
    next_rows = gl.load(neighbours + ((next_edge >> 16) * H)[:, None])
    later_edge = gl.load(edges + TILE)
    for step in range(gl.load(lengths_ptr + at)):
        edge = next_edge
        rows = next_rows
        next_edge = later_edge
        next_rows = gl.load(neighbours + ((next_edge >> 16) * H)[:, None])
        later_edge = gl.load(edges + gl.minimum(step + 2, K - 1) * TILE)
        dproduct = _where_chosen(choice, edge[:, None], dout)
        dhidden = hopper.warpgroup_mma(left_operand(dproduct), transposed, zero, use_acc=False)
        dhidden = gl.where(_hidden(centre, rows) > 0, in_rows(dhidden), 0.0)
        dcentre += dhidden
        is_edge = ((edge & 0xFFFF) != NO_EDGE_BITS)[:, None]
        there = dneighbours + ((edge >> 16) * H)[:, None]
        if EXACT:
            gl.atomic_add(there, (dhidden + anchor) - anchor, mask=is_edge, sem="relaxed")
        else:
            gl.atomic_add(there, dhidden.to(gl.bfloat16), mask=is_edge, sem="relaxed")
    gl.store(dcentre_ptr + here, dcentre.to(gl.bfloat16), mask=inside)


@gluon.jit
def edge_backward_weights_kernel(
    centre_ptr, neighbour_ptr, choice_ptr, dout_ptr, list_ptr, lengths_ptr, sums_ptr,
    patches, points, K: gl.constexpr, TILE: gl.constexpr,
):  # fmt: skip
    """Gradients of weights and bias, summed over every num_programs-th tile of one group.

    These products sum over nodes, so both operands come from shared memory. Two steps at a time.
    """
    LINES: gl.constexpr = line_layout(TILE)
    PRODUCT: gl.constexpr = product_layout(H)
    hidden_one = gl.allocate_shared_memory(gl.bfloat16, [TILE, H], SHARED)
    hidden_two = gl.allocate_shared_memory(gl.bfloat16, [TILE, H], SHARED)
    dproduct_one = gl.allocate_shared_memory(gl.bfloat16, [TILE, H], SHARED)
    dproduct_two = gl.allocate_shared_memory(gl.bfloat16, [TILE, H], SHARED)
    group = gl.program_id(1)
    tiles = gl.cdiv(points, TILE)
    row = gl.arange(0, TILE, gl.SliceLayout(1, LINES))
    column = gl.arange(0, H, gl.SliceLayout(0, LINES))
    dweight = gl.zeros([H, H], gl.float32, PRODUCT)
    dbias = gl.zeros([H], gl.float32, gl.SliceLayout(0, LINES))
    for tile in range(gl.program_id(0), patches * tiles, gl.num_programs(0)):
        base = (group * patches + tile // tiles).to(gl.int64) * points * H
        node = (tile % tiles) * TILE + row
        inside = (node < points)[:, None]
        here = base + (node[:, None] * H + column[None, :])
        centre = gl.load(centre_ptr + here, mask=inside, other=0.0)
        choice = gl.load(choice_ptr + here, mask=inside, other=CLOSED)
        dout = gl.load(dout_ptr + here, mask=inside, other=0.0)
        dbias += gl.sum(gl.where(choice != CLOSED, dout.to(gl.float32), 0.0), 0)
        choice = _as_bf16(choice)
        at = (group * patches * tiles + tile).to(gl.int64)
        edges = list_ptr + at * K * TILE + row
        neighbours = (neighbour_ptr + base) + column[None, :]
        edge_one = gl.load(edges)
        edge_two = gl.load(edges + TILE)
        for step in range(0, gl.load(lengths_ptr + at), 2):
            rows_one = gl.load(neighbours + ((edge_one >> 16) * H)[:, None])
            rows_two = gl.load(neighbours + ((edge_two >> 16) * H)[:, None])
            dproduct_one.store(_where_chosen(choice, edge_one[:, None], dout))
            dproduct_two.store(_where_chosen(choice, edge_two[:, None], dout))
            next_edges = edges + gl.minimum(step + 2, K - 2) * TILE
            edge_one = gl.load(next_edges)
            edge_two = gl.load(next_edges + TILE)
            hidden_one.store(_hidden(centre, rows_one))
            hidden_two.store(_hidden(centre, rows_two))
            hopper.fence_async_shared()
            sums = hopper.warpgroup_mma(
                hidden_one.permute([1, 0]), dproduct_one, dweight, is_async=True
            )
            sums = hopper.warpgroup_mma(
                hidden_two.permute([1, 0]), dproduct_two, sums, is_async=True
            )
            dweight = hopper.warpgroup_mma_wait(0, [sums])
    channel = gl.arange(0, H, gl.SliceLayout(1, PRODUCT))[:, None]
    output = gl.arange(0, H, gl.SliceLayout(0, PRODUCT))[None, :]
    groups = gl.num_programs(1)
    sums_ptr += gl.program_id(0).to(gl.int64) * groups * (H + 1) * H
    gl.store(sums_ptr + group * H * H + channel * H + output, dweight)
    gl.store(sums_ptr + groups * H * H + group * H + column, dbias)


def forward(edges: Edges, bias: Tensor, with_choice: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """`triton_max.forward` for bf16 features."""
    centre, neighbour, graph, weight = edges
    groups, batch, points, _ = centre.shape
    out, choice, active = edges.empty_results(with_choice)
    edge_forward_kernel[triton.cdiv(points, FORWARD_NODES), batch, groups](
        centre, neighbour, graph, weight, bias, out, choice, active,
        graph.stride(0), graph.stride(1), points,
        K=graph.shape[-1], TILE=FORWARD_NODES, CHOICE=with_choice,
        num_warps=FORWARD_NODES // NODES_PER_WARP,
    )  # fmt: skip
    return out, choice, active


def backward(
    edges: Edges, choice: Tensor, active: Tensor, dout: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`triton_max.backward` for bf16 features.

    In `sums_in_any_order`, dneighbour is summed in bf16: half the traffic of atomics, whose time is
    that of their bytes.
    """
    centre, neighbour, graph, weight = edges
    groups, batch, points, _ = centre.shape
    active_edges, lengths = list_edges(graph, active, NODES)
    options = {"K": active_edges.shape[-2], "TILE": NODES, "num_warps": WARPS, "maxnreg": REGISTERS}
    dcentre = torch.empty_like(centre)
    exact = sums_repeat()
    dneighbour = torch.zeros_like(neighbour, dtype=torch.float32 if exact else None)
    edge_backward_features_kernel[triton.cdiv(points, NODES), batch, groups](
        centre, neighbour, weight, choice, dout, active_edges, lengths,
        anchors(dout, weight) if exact else None, dcentre, dneighbour, points,
        EXACT=exact, **options,
    )  # fmt: skip
    sums = edges.weight_sums(NODES, WEIGHT_PROGRAMS)
    edge_backward_weights_kernel[len(sums), groups](
        centre, neighbour, choice, dout, active_edges, lengths, sums, batch, points, **options
    )
    return dcentre, dneighbour, *edges.weight_gradients(sums)
