# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""`edge_max` on CUDA: fused kernels forward and backward, which keep no features of size N x K.

Forward. A program holds a tile of nodes and loops over k: gather one neighbour row per node, add,
relu, product with the H x H weight, running maximum. For a backward it stores the k of each maximum
as one byte (CLOSED where the outer relu cuts the gradient), and the active edges of a node, whose k
any channel chose, as the bits of one word. Without one, fp32 products are sums of three tf32
products, which tensor cores do.

Backward. A channel sends its gradient through one k, so many edges are not active. `triton_list`
lists the active edges of every node, and a program loops over the lists of its nodes. With dy the
dout of the channels that chose the edge,

    dx = (dy W^T) [x > 0],   dcentre_i += dx,   dneighbour_j += dx,   dW += relu(x)^T dy

dneighbour is summed with atomics, whose order is not fixed. So terms are rounded such that their
sums are exact (`triton_exact`), except for "ieee", which keeps all digits of each term instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from pdflow.kernels.edge.triton_asm import (
    ADD_AND_RELU,
    REPLACE_LOW_BITS,
    ROUND_PAIR,
    SELECT_EQUAL,
)
from pdflow.kernels.edge.triton_edges import Edges
from pdflow.kernels.edge.triton_list import NO_EDGE, list_edges
from pdflow.kernels.triton_exact import anchors
from pdflow.kernels.triton_launch import arithmetic

CLOSED = tl.constexpr(255)


@dataclass(frozen=True)
class EdgeLaunch:
    """How an edge kernel is launched.

    tile       nodes of a tile
    warps      warps of a program
    stages     stages of load pipelining
    registers  most registers of a thread; None leaves it to the compiler
    waves      programs per multiprocessor, if programs loop over tiles
    """

    tile: int
    warps: int
    stages: int = 1
    registers: int | None = None
    waves: int = 2

    def options(self) -> dict[str, int]:
        """Keyword arguments of the launch."""
        options = {"num_warps": self.warps, "TILE": self.tile, "STAGES": self.stages}
        return options if self.registers is None else {**options, "maxnreg": self.registers}


@triton.jit
def _either(a, b):
    return a | b


@triton.jit
def _hidden(centre, neighbour, DOT: tl.constexpr, NATIVE: tl.constexpr):
    """relu(centre + neighbour) as the operand of a product.

    NATIVE does two bf16 sums and relus in one instruction, relu(centre * 1 + neighbour).
    """
    if NATIVE and tl.bfloat16 == DOT and centre.dtype == DOT and neighbour.dtype == DOT:
        return tl.inline_asm_elementwise(
            ADD_AND_RELU, "=r,r,r", [centre, neighbour], dtype=tl.bfloat16, is_pure=True, pack=2,
        )  # fmt: skip
    return tl.maximum(centre.to(tl.float32) + neighbour.to(tl.float32), 0.0).to(DOT)


@triton.jit
def _tagged(value, k, NATIVE: tl.constexpr):
    """fp32 values with k in place of their low 6 bits, (value & -64) | k."""
    bits = value.to(tl.int32, bitcast=True)
    if NATIVE:
        bits = tl.inline_asm_elementwise(
            REPLACE_LOW_BITS, "=r,r,r", [bits, k], dtype=tl.int32, is_pure=True, pack=1,
        )  # fmt: skip
    else:
        bits = (bits & -64) | k
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _as_operand(choice, DOT: tl.constexpr, NATIVE: tl.constexpr):
    """Choices in the type of the comparison; NATIVE keeps two bf16 in one register."""
    if NATIVE and tl.bfloat16 == DOT:
        return tl.inline_asm_elementwise(
            ROUND_PAIR, "=r,r,r", [choice.to(tl.float32)], dtype=tl.bfloat16, is_pure=True, pack=2,
        )  # fmt: skip
    return choice.to(DOT)


@triton.jit
def _where_chosen(choice, k, dout, DOT: tl.constexpr, NATIVE: tl.constexpr):
    """dout where the maximum chose edge k, else 0, as the operand of a product.

    NATIVE compares and selects two bf16 at once; bf16 holds every choice up to 255 exactly.
    """
    if NATIVE and tl.bfloat16 == DOT:
        return tl.inline_asm_elementwise(
            SELECT_EQUAL, "=r,r,r,r", [choice, k, dout], dtype=tl.bfloat16, is_pure=True, pack=2,
        )  # fmt: skip
    return tl.where(choice == k, dout, 0.0).to(DOT)


@triton.jit
def edge_forward_kernel(
    centre_ptr, neighbour_ptr, graph_ptr, weight_ptr, bias_ptr, out_ptr, choice_ptr, active_ptr,
    graph_patch_stride, graph_node_stride, points,
    K: tl.constexpr, H: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr, CHOICE: tl.constexpr, PACK: tl.constexpr, STAGES: tl.constexpr,
    NATIVE: tl.constexpr,
):  # fmt: skip
    """TILE nodes of one patch and group.

    PACK keeps k in the low 6 bits of the product, so that one maximum finds value and place. That
    rounds the product to 17 bits, still finer than bf16 and tf32 operands.
    """
    patch = tl.program_id(1)
    group = tl.program_id(2)
    first = (group * tl.num_programs(1) + patch).to(tl.int64) * points
    base = first * H
    column = tl.arange(0, H)
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = row < points
    here = row[:, None] * H + column[None, :]
    graph = graph_ptr + patch.to(tl.int64) * graph_patch_stride + row * graph_node_stride

    centre = tl.load(centre_ptr + base + here, mask=inside[:, None], other=0.0)
    weight = tl.load(weight_ptr + group * H * H + column[:, None] * H + column[None, :]).to(DOT)
    best = tl.full((TILE, H), float("-inf"), tl.float32)
    choice = tl.zeros((TILE, H), tl.int32)
    # Load the features of the next edge during the work on this one.
    other = tl.load(graph, mask=inside, other=0).to(tl.int32)
    next_rows = tl.load(neighbour_ptr + base + (other[:, None] * H + column[None, :]))
    other = tl.load(graph + (1 if K > 1 else 0), mask=inside, other=0).to(tl.int32)
    for k in tl.range(0, K, num_stages=STAGES):
        rows = next_rows
        next_rows = tl.load(neighbour_ptr + base + (other[:, None] * H + column[None, :]))
        other = tl.load(graph + tl.minimum(k + 2, K - 1), mask=inside, other=0).to(tl.int32)
        hidden = _hidden(centre, rows, DOT, NATIVE)
        product = tl.dot(hidden, weight, input_precision=INPUT_PRECISION)
        if PACK:
            best = tl.maximum(best, _tagged(product, k, NATIVE))
        elif CHOICE:
            better = product > best
            best = tl.where(better, product, best)
            choice = tl.where(better, k, choice)
        else:
            best = tl.maximum(best, product)
    if PACK:
        bits = best.to(tl.int32, bitcast=True)
        choice = bits & 63
        best = (bits & -64).to(tl.float32, bitcast=True)
    pooled = best + tl.load(bias_ptr + group * H + column).to(tl.float32)[None, :]
    tl.store(out_ptr + base + here, tl.maximum(pooled, 0.0), mask=inside[:, None])
    if CHOICE:
        is_open = pooled > 0
        closed_or_choice = tl.where(is_open, choice, CLOSED).to(tl.uint8)
        tl.store(choice_ptr + base + here, closed_or_choice, mask=inside[:, None])
        word = active_ptr.dtype.element_ty
        one = tl.full((TILE, H), 1, word)
        active = tl.reduce(tl.where(is_open, one << choice.to(word), 0), 1, _either)
        tl.store(active_ptr + first + row, active, mask=inside)


@triton.jit
def edge_backward_kernel(
    centre_ptr, neighbour_ptr, weight_ptr, choice_ptr, dout_ptr, list_ptr, lengths_ptr,
    anchors_ptr, dcentre_ptr, dneighbour_ptr, sums_ptr, patches, points,
    K: tl.constexpr, H: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr, STAGES: tl.constexpr, NATIVE: tl.constexpr,
    EXACT: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile of one group; leaves sums for weight and bias per program."""
    group = tl.program_id(1)
    column = tl.arange(0, H)
    transposed_at = column[None, :] * H + column[:, None]
    transposed = tl.load(weight_ptr + group * H * H + transposed_at).to(DOT)
    dweight = tl.zeros((H, H), tl.float32)
    dbias = tl.zeros((H,), tl.float32)
    tiles = tl.cdiv(points, TILE)
    row = tl.arange(0, TILE)
    for tile in range(tl.program_id(0), patches * tiles, tl.num_programs(0)):
        patch = (group * patches + tile // tiles).to(tl.int64)
        base = patch * points * H
        if EXACT:
            anchor = tl.load(anchors_ptr + patch)
        inside = ((tile % tiles) * TILE + row < points)[:, None]
        here = base + ((tile % tiles) * TILE + row[:, None]) * H + column[None, :]
        centre = tl.load(centre_ptr + here, mask=inside, other=0.0)
        choice = tl.load(choice_ptr + here, mask=inside, other=CLOSED).to(tl.int32)
        dout = tl.load(dout_ptr + here, mask=inside, other=0.0)
        dbias += tl.sum(tl.where(choice != CLOSED, dout.to(tl.float32), 0.0), 0)
        choice_operand = _as_operand(choice, DOT, NATIVE)
        dout = dout.to(DOT)
        dcentre = tl.zeros((TILE, H), tl.float32)

        at = (group * patches * tiles + tile).to(tl.int64)
        edges = list_ptr + at * K * TILE + row
        next_edge = tl.load(edges)
        for step in tl.range(0, tl.load(lengths_ptr + at), num_stages=STAGES):
            edge = next_edge
            next_edge = tl.load(edges + tl.minimum(step + 1, K - 1) * TILE)
            k = (edge << 16).to(tl.float32, bitcast=True)
            there = base + (edge >> 16)[:, None] * H + column[None, :]
            hidden = _hidden(centre, tl.load(neighbour_ptr + there), DOT, NATIVE)
            dproduct = _where_chosen(choice_operand, k.to(DOT)[:, None], dout, DOT, NATIVE)
            dweight = tl.dot(tl.trans(dproduct), hidden, dweight, input_precision=INPUT_PRECISION)
            dhidden = tl.dot(dproduct, transposed, input_precision=INPUT_PRECISION)
            dhidden = tl.where(hidden > 0, dhidden, 0.0)
            dcentre += dhidden
            is_edge = (k != NO_EDGE)[:, None]
            if EXACT:
                dhidden = (dhidden + anchor) - anchor
            tl.atomic_add(dneighbour_ptr + there, dhidden, mask=is_edge, sem="relaxed")
        tl.store(dcentre_ptr + here, dcentre, mask=inside)
    groups = tl.num_programs(1)
    sums = sums_ptr + tl.program_id(0).to(tl.int64) * groups * (H + 1) * H
    tl.store(sums + group * H * H + transposed_at, dweight)
    tl.store(sums + groups * H * H + group * H + column, dbias)


def default_launch(kernel: str, width: int, precision: str) -> EdgeLaunch:
    """The launch of the "forward" or "backward" kernel for width H and a precision.

    A tile gets eight warps if four would run out of registers.
    """
    if precision == "ieee":
        return EdgeLaunch(2048 // width, 8, waves=1)
    crowded = width > 64 or (kernel == "backward" and precision == "tf32")
    return EdgeLaunch(64, 8, waves=1) if crowded else EdgeLaunch(64, 4)


def forward(
    edges: Edges,
    bias: Tensor,
    precision: str,
    with_choice: bool = True,
    launch: EdgeLaunch | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Launch the forward kernel; returns out, choice and active (`Edges.empty_results`)."""
    centre, neighbour, graph, weight = edges
    groups, batch, points, width = centre.shape
    products = "tf32x3" if precision == "ieee" and not with_choice else precision
    launch = launch or default_launch("forward", width, products)
    out, choice, active = edges.empty_results(with_choice)
    edge_forward_kernel[triton.cdiv(points, launch.tile), batch, groups](
        centre, neighbour, graph, weight, bias, out, choice, active,
        graph.stride(0), graph.stride(1), points,
        K=graph.shape[-1], H=width, CHOICE=with_choice, PACK=with_choice and precision != "ieee",
        NATIVE=centre.is_cuda, **arithmetic(products), **launch.options(),
    )  # fmt: skip
    return out, choice, active


def backward(
    edges: Edges,
    choice: Tensor,
    active: Tensor,
    dout: Tensor,
    precision: str,
    launch: EdgeLaunch | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Launch the backward kernel.

    returns  gradients of centre, neighbour, weight and bias: that of centre in its own type, the
             others in fp32
    """
    centre, neighbour, graph, weight = edges
    groups, batch, points, width = centre.shape
    launch = launch or default_launch("backward", width, precision)
    active_edges, lengths = list_edges(graph, active, launch.tile)
    dcentre = torch.empty_like(centre)
    dneighbour = torch.zeros_like(neighbour, dtype=torch.float32)
    sums = edges.weight_sums(launch.tile, launch.waves)
    exact = precision != "ieee"
    edge_backward_kernel[len(sums), groups](
        centre, neighbour, weight, choice, dout, active_edges, lengths,
        anchors(dout, weight) if exact else None, dcentre, dneighbour, sums, batch, points,
        K=active_edges.shape[-2], H=width, NATIVE=centre.is_cuda, EXACT=exact,
        **arithmetic(precision), **launch.options(),
    )  # fmt: skip
    return dcentre, dneighbour, *edges.weight_gradients(sums)
