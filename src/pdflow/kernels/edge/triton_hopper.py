# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""EdgeUnit core on Hopper GPUs: `triton_max` for bf16 and H = 64, with registers laid out by hand.

Left to itself, Triton reads rows in one layout, multiplies in another and adds up in a third, so
that each step along the edges sends them through shared memory several times. Here a thread
reads eight neighbouring channels, and these are what the matrix units expect of it if the
channels of a product are counted in another order (`_mixed`). Only the weights are stored in that
order; nothing else has to move, and a step needs no barrier.

The backward pass is two kernels, for the features and for the weights: one would have to wait for
its own atomics at every step. dneighbour is summed in bf16, which halves what the atomics move.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper

from pdflow.kernels.edge.triton_list import list_edges
from pdflow.kernels.edge.triton_max import empty_results
from pdflow.kernels.triton_launch import multiprocessors, sum_partials

WIDTH = 64
NODES = 64
FORWARD_NODES = 256  # of one patch, so that the others' features stay in a multiprocessor's cache
NODES_PER_WARP = 16
WARPS = NODES // NODES_PER_WARP
REGISTERS = 168  # of a thread: three programs of the backward share a multiprocessor
WEIGHT_PROGRAMS = 3

H = gl.constexpr(WIDTH)
TILE = gl.constexpr(NODES)
CLOSED = gl.constexpr(255)
NO_EDGE_BITS = gl.constexpr(0x437E)  # of NO_EDGE, 254, in bf16

_threads_meet = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier

SHARED = gl.constexpr(gl.NVMMASharedLayout(128, 16, 2))


@gluon.constexpr_function
def _products(tile):
    """Products of tile x 64, sixteen rows to a warp."""
    return gl.NVMMADistributedLayout([3, 0], [tile // NODES_PER_WARP, 1], [16, 64, 16])


@gluon.constexpr_function
def _rows(tile):
    """The rows of products: a thread has two, and in each of them twice eight channels in a row."""
    return gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [0, 4], [0, 32], [8, 0]],
        lane_bases=[[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[row, 0] for row in (16, 32, 64, 128) if row < tile],
        block_bases=[],
        shape=[tile, 64],
    )


@gluon.constexpr_function
def _lines(tile):
    """Whole rows side by side, for what goes to shared memory."""
    return gl.BlockedLayout([1, 8], [4, 8], [tile // NODES_PER_WARP, 1], [1, 0])


@gluon.jit
def _mixed(column):
    """The channel that stands at a column of a product."""
    thread = (column // 2) % 4
    pair = (column // 8) % 4
    return column // 32 * 32 + thread * 8 + pair * 2 + column % 2


@gluon.jit
def _exchange_orders(x):
    """Channels in their order to those of `_mixed`, or back; nothing moves."""
    return x.reshape([x.shape[0], 2, 4, 4, 2]).permute([0, 1, 3, 2, 4]).reshape(x.shape)


@gluon.jit
def _left(x):
    """What lies in rows as the left side of a product."""
    return gl.convert_layout(_exchange_orders(x), gl.DotOperandLayout(0, _products(x.shape[0]), 2))


@gluon.jit
def _in_rows(product):
    """A product in rows."""
    return gl.convert_layout(_exchange_orders(product), _rows(product.shape[0]))


@gluon.jit
def _shared_weight(weight_ptr, TILE: gl.constexpr):
    """(H, H) weights in shared memory, mixed both ways, for products of a tile."""
    row = _mixed(gl.arange(0, H, gl.SliceLayout(1, _lines(TILE))))[:, None]
    column = _mixed(gl.arange(0, H, gl.SliceLayout(0, _lines(TILE))))[None, :]
    weight = gl.load(weight_ptr + row * H + column).to(gl.bfloat16)
    shared = gl.allocate_shared_memory(gl.bfloat16, [H, H], SHARED, weight)
    hopper.fence_async_shared()
    _threads_meet()
    return shared


@gluon.jit
def _hidden(centre, neighbour):
    """relu(centre + neighbour), two at a time: relu(centre * 1 + neighbour)."""
    return gl.inline_asm_elementwise(
        "{.reg .b32 one; mov.b32 one, 0x3F803F80; fma.rn.relu.bf16x2 $0, $1, one, $2;}",
        "=r,r,r", [centre, neighbour], dtype=gl.bfloat16, is_pure=True, pack=2,
    )  # fmt: skip


@gluon.jit
def _tagged(value, k):
    """fp32 values with k in place of their low 6 bits, (value & -64) | k."""
    bits = gl.inline_asm_elementwise(
        "lop3.b32 $0, $1, 0xFFFFFFC0, $2, 0xEA;",
        "=r,r,r", [value.to(gl.int32, bitcast=True), k], dtype=gl.int32, is_pure=True, pack=1,
    )  # fmt: skip
    return bits.to(gl.float32, bitcast=True)


@gluon.jit
def _as_bf16(choice):
    """Choices as bf16 numbers, which hold them exactly; two in one register."""
    return gl.inline_asm_elementwise(
        "cvt.rn.bf16x2.f32 $0, $2, $1;",
        "=r,r,r", [choice.to(gl.float32)], dtype=gl.bfloat16, is_pure=True, pack=2,
    )  # fmt: skip


@gluon.jit
def _where_chosen(choice, edge, dout):
    """dout where the maximum chose the edge, else 0."""
    k = edge.to(gl.int16).to(gl.bfloat16, bitcast=True)
    return gl.inline_asm_elementwise(
        "{.reg .b32 hit; set.eq.bf16x2.bf16x2 hit, $1, $2; mul.bf16x2 $0, hit, $3;}",
        "=r,r,r,r", [choice, k, dout], dtype=gl.bfloat16, is_pure=True, pack=2,
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
    ROWS: gl.constexpr = _rows(TILE)
    PRODUCT: gl.constexpr = _products(TILE)
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
    weight = _shared_weight(weight_ptr + group * H * H, TILE)
    best = gl.full([TILE, H], float("-inf"), gl.float32, PRODUCT)
    zero = gl.zeros([TILE, H], gl.float32, PRODUCT)
    # What the next edge needs is under way while this one is worked on.
    other = gl.load(graph, mask=inside, other=0).to(gl.int32)
    next_rows = gl.load(neighbours + (other[:, None] * H + column[None, :]))
    other = gl.load(graph + (1 if K > 1 else 0), mask=inside, other=0).to(gl.int32)
    for k in range(K):
        rows = next_rows
        next_rows = gl.load(neighbours + (other[:, None] * H + column[None, :]))
        other = gl.load(graph + gl.minimum(k + 2, K - 1), mask=inside, other=0).to(gl.int32)
        product = hopper.warpgroup_mma(_left(_hidden(centre, rows)), weight, zero, use_acc=False)
        best = gl.maximum(best, _tagged(product, k) if CHOICE else product)
    best = _in_rows(best)
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
    dcentre_ptr, dneighbour_ptr, points, K: gl.constexpr, TILE: gl.constexpr,
):  # fmt: skip
    """Gradients of the features, for TILE nodes of one patch and group."""
    ROWS: gl.constexpr = _rows(TILE)
    PRODUCT: gl.constexpr = _products(TILE)
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
    transposed = _shared_weight(weight_ptr + group * H * H, TILE).permute([1, 0])
    dcentre = gl.zeros([TILE, H], gl.float32, ROWS)
    zero = gl.zeros([TILE, H], gl.float32, PRODUCT)
    at = patch * gl.num_programs(0) + gl.program_id(0)
    edges = list_ptr + at * K * TILE + row
    neighbours = (neighbour_ptr + base) + column[None, :]
    dneighbours = (dneighbour_ptr + base) + column[None, :]
    # What the next edge needs is under way while this one is worked on.
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
        dhidden = hopper.warpgroup_mma(_left(dproduct), transposed, zero, use_acc=False)
        dhidden = gl.where(_hidden(centre, rows) > 0, _in_rows(dhidden), 0.0)
        dcentre += dhidden
        is_edge = ((edge & 0xFFFF) != NO_EDGE_BITS)[:, None]
        there = dneighbours + ((edge >> 16) * H)[:, None]
        gl.atomic_add(there, dhidden.to(gl.bfloat16), mask=is_edge, sem="relaxed")
    gl.store(dcentre_ptr + here, dcentre.to(gl.bfloat16), mask=inside)


@gluon.jit
def edge_backward_weights_kernel(
    centre_ptr, neighbour_ptr, choice_ptr, dout_ptr, list_ptr, lengths_ptr, sums_ptr,
    patches, points, K: gl.constexpr, TILE: gl.constexpr,
):  # fmt: skip
    """Gradients of weights and bias, summed over every num_programs-th tile of one group.

    Products sum over nodes here: both sides come from shared memory. Two steps are taken at once.
    """
    LINES: gl.constexpr = _lines(TILE)
    PRODUCT: gl.constexpr = _products(H)
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


def forward(
    centre: Tensor,
    neighbour: Tensor,
    neighbours: Tensor,
    weight: Tensor,
    bias: Tensor,
    with_choice: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """`triton_max.forward` for bf16 features."""
    groups, batch, points, _ = centre.shape
    out, choice, active = empty_results(centre, neighbours, with_choice)
    edge_forward_kernel[triton.cdiv(points, FORWARD_NODES), batch, groups](
        centre, neighbour, neighbours, weight, bias, out, choice, active,
        neighbours.stride(0), neighbours.stride(1), points,
        K=neighbours.shape[-1], TILE=FORWARD_NODES, CHOICE=with_choice,
        num_warps=FORWARD_NODES // NODES_PER_WARP,
    )  # fmt: skip
    return out, choice, active


def backward(
    centre: Tensor,
    neighbour: Tensor,
    neighbours: Tensor,
    weight: Tensor,
    choice: Tensor,
    active: Tensor,
    dout: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`triton_max.backward` for bf16 features; the gradient of neighbour is bf16, too."""
    groups, batch, points, width = centre.shape
    tiles = triton.cdiv(points, NODES)
    edges, lengths = list_edges(neighbours, active, NODES)
    steps = edges.shape[-2]
    dcentre = torch.empty_like(centre)
    dneighbour = torch.zeros_like(neighbour)
    edge_backward_features_kernel[tiles, batch, groups](
        centre, neighbour, weight, choice, dout, edges, lengths, dcentre, dneighbour,
        points, K=steps, TILE=NODES, num_warps=WARPS, maxnreg=REGISTERS,
    )  # fmt: skip
    programs = max(1, WEIGHT_PROGRAMS * multiprocessors(centre.device) // groups)
    programs = min(batch * tiles, programs)
    sums = weight.new_empty((programs, groups * (width + 1) * width), dtype=torch.float32)
    edge_backward_weights_kernel[programs, groups](
        centre, neighbour, choice, dout, edges, lengths, sums,
        batch, points, K=steps, TILE=NODES, num_warps=WARPS, maxnreg=REGISTERS,
    )  # fmt: skip
    dweight, dbias = sum_partials(sums).split([weight.numel(), groups * width])
    return dcentre, dneighbour, dweight.view_as(weight), dbias.view(groups, width)
