# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""EdgeUnit core on CUDA: one fused kernel forward, one backward; nothing of size N K is kept.

Forward. A program holds a tile of nodes and loops over k: gather one neighbour row per node, add,
relu, product with the H x H weight, running maximum. The k of the maximum is stored as one byte
(CLOSED where the outer relu cuts the gradient), and the k that were chosen by any channel of a
node as the bits of one word: its active edges.

Backward. A channel sends gradient through one k, so about half of the edges are not active
(60 % of 32 in trained networks). A program walks through the active edges of its nodes. With dy
the dout of the channels that chose the edge,

    dx = (dy W^T) [x > 0],   dcentre_i += dx,   dneighbour_j += dx,   dW += relu(x)^T dy

dneighbour is summed with atomics: the order of the sum is not fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from pdflow.kernels.launch_triton import arithmetic, multiprocessors

CLOSED = tl.constexpr(255)


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched.

    tile       nodes of one program
    warps      of one program
    stages     of load pipelining
    registers  of one thread at most; None leaves it to the compiler
    waves      programs per multiprocessor, where programs loop over tiles
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
def _lowest_bit(bits):
    """Place of the lowest set bit of a word, read off the exponent of its value; -127 for 0."""
    lowest = (bits & -bits).to(tl.float32).to(tl.int32, bitcast=True)
    return ((lowest >> 23) & 255) - 127


@triton.jit
def _count_bits(bits):
    """Number of set bits of int64 words, by sums of neighbouring fields."""
    pairs = bits - ((bits >> 1) & 0x5555555555555555)
    nibbles = (pairs & 0x3333333333333333) + ((pairs >> 2) & 0x3333333333333333)
    octets = (nibbles + (nibbles >> 4)) & 0x0F0F0F0F0F0F0F0F
    return ((octets * 0x0101010101010101) >> 56).to(tl.int32)


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
            "{.reg .b32 one; mov.b32 one, 0x3F803F80; fma.rn.relu.bf16x2 $0, $1, one, $2;}",
            "=r,r,r", [centre, neighbour], dtype=tl.bfloat16, is_pure=True, pack=2,
        )  # fmt: skip
    return tl.maximum(centre.to(tl.float32) + neighbour.to(tl.float32), 0.0).to(DOT)


@triton.jit
def _tagged(value, k, NATIVE: tl.constexpr):
    """fp32 values with k in place of their low 6 bits, (value & -64) | k."""
    bits = value.to(tl.int32, bitcast=True)
    if NATIVE:
        bits = tl.inline_asm_elementwise(
            "lop3.b32 $0, $1, 0xFFFFFFC0, $2, 0xEA;",
            "=r,r,r", [bits, k], dtype=tl.int32, is_pure=True, pack=1,
        )  # fmt: skip
    else:
        bits = (bits & -64) | k
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _as_operand(choice, DOT: tl.constexpr, NATIVE: tl.constexpr):
    """Choices in the type they are compared in; NATIVE keeps two bf16 in one register."""
    if NATIVE and tl.bfloat16 == DOT:
        return tl.inline_asm_elementwise(
            "cvt.rn.bf16x2.f32 $0, $2, $1;",
            "=r,r,r", [choice.to(tl.float32)], dtype=tl.bfloat16, is_pure=True, pack=2,
        )  # fmt: skip
    return choice.to(DOT)


@triton.jit
def _where_chosen(choice, k, dout, DOT: tl.constexpr, NATIVE: tl.constexpr):
    """dout where the maximum chose edge k, else 0, as the operand of a product.

    NATIVE compares and selects two bf16 at once; bf16 holds every choice up to 255 exactly.
    """
    if NATIVE and tl.bfloat16 == DOT:
        return tl.inline_asm_elementwise(
            "{.reg .b32 hit; set.eq.bf16x2.bf16x2 hit, $1, $2; mul.bf16x2 $0, hit, $3;}",
            "=r,r,r,r", [choice, k, dout], dtype=tl.bfloat16, is_pure=True, pack=2,
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

    PACK keeps k in the low 6 bits of the product, so that one maximum finds value and place;
    that rounds the product to 17 bits, finer than bf16 and tf32 operands deserve.
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
    # What the next edge needs is under way while this one is worked on.
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
    centre_ptr, neighbour_ptr, graph_ptr, weight_ptr, choice_ptr, dout_ptr,
    active_ptr, dcentre_ptr, dneighbour_ptr, dweight_ptr, dbias_ptr,
    graph_patch_stride, graph_node_stride, patches, points,
    H: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
    STAGES: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile of one group; dweight and dbias leave as one sum per program."""
    group = tl.program_id(1)
    column = tl.arange(0, H)
    transposed_at = column[None, :] * H + column[:, None]
    transposed = tl.load(weight_ptr + group * H * H + transposed_at).to(DOT)
    dweight = tl.zeros((H, H), tl.float32)
    dbias = tl.zeros((H,), tl.float32)
    tiles = tl.cdiv(points, TILE)
    for tile in range(tl.program_id(0), patches * tiles, tl.num_programs(0)):
        patch = tile // tiles
        first = (group * patches + patch).to(tl.int64) * points
        base = first * H
        row = (tile % tiles) * TILE + tl.arange(0, TILE)
        inside = row < points
        here = row[:, None] * H + column[None, :]
        graph = graph_ptr + patch.to(tl.int64) * graph_patch_stride + row * graph_node_stride

        centre = tl.load(centre_ptr + base + here, mask=inside[:, None], other=0.0)
        choice = tl.load(choice_ptr + base + here, mask=inside[:, None], other=CLOSED).to(tl.int32)
        dout = tl.load(dout_ptr + base + here, mask=inside[:, None], other=0.0)
        dbias += tl.sum(tl.where(choice != CLOSED, dout.to(tl.float32), 0.0), 0)
        active = tl.load(active_ptr + first + row, mask=inside, other=0)
        choice_operand = _as_operand(choice, DOT, NATIVE)
        dout = dout.to(DOT)
        dcentre = tl.zeros((TILE, H), tl.float32)
        for _ in tl.range(0, tl.max(_count_bits(active.to(tl.int64)), 0), num_stages=STAGES):
            k = _lowest_bit(active)
            active &= active - 1
            some = k >= 0
            other = tl.load(graph + k, mask=some, other=0).to(tl.int32)
            there = other[:, None] * H + column[None, :]
            hidden = _hidden(centre, tl.load(neighbour_ptr + base + there), DOT, NATIVE)
            dproduct = _where_chosen(choice_operand, k.to(DOT)[:, None], dout, DOT, NATIVE)
            dweight = tl.dot(tl.trans(dproduct), hidden, dweight, input_precision=INPUT_PRECISION)
            dhidden = tl.dot(dproduct, transposed, input_precision=INPUT_PRECISION)
            dhidden = tl.where(hidden > 0, dhidden, 0.0)
            dcentre += dhidden
            tl.atomic_add(dneighbour_ptr + base + there, dhidden, mask=some[:, None], sem="relaxed")
        tl.store(dcentre_ptr + base + here, dcentre, mask=inside[:, None])
    program = group * tl.num_programs(0) + tl.program_id(0)
    tl.store(dweight_ptr + program * H * H + transposed_at, dweight)
    tl.store(dbias_ptr + program * H + column, dbias)


def default_launch(kernel: str, width: int, precision: str) -> Launch:
    """The launch of the "forward" or "backward" kernel for H and a precision.

    Eight warps share a tile where four would run out of registers.
    """
    if precision == "ieee":
        return Launch(2048 // width, 8, waves=1)
    crowded = width > 64 or (kernel == "backward" and precision == "tf32")
    return Launch(64, 8, waves=1) if crowded else Launch(64, 4)


def forward(
    centre: Tensor,
    neighbour: Tensor,
    neighbours: Tensor,
    weight: Tensor,
    bias: Tensor,
    precision: str,
    with_choice: bool = True,
    launch: Launch | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Launch the forward kernel.

    returns  out (G, B, N, H) in the type of centre; choice (G, B, N, H) uint8 and active
             (G, B, N) int32 or, for K > 32, int64, both empty unless `with_choice`
    """
    groups, batch, points, width = centre.shape
    k = neighbours.shape[-1]
    launch = launch or default_launch("forward", width, precision)
    out, choice, active = empty_results(centre, neighbours, with_choice)
    edge_forward_kernel[triton.cdiv(points, launch.tile), batch, groups](
        centre, neighbour, neighbours, weight, bias, out, choice, active,
        neighbours.stride(0), neighbours.stride(1), points,
        K=k, H=width, CHOICE=with_choice, PACK=with_choice and precision != "ieee",
        NATIVE=centre.is_cuda, **arithmetic(precision), **launch.options(),
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
    precision: str,
    launch: Launch | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Launch the backward kernel.

    returns  gradients of centre, neighbour, weight and bias: that of centre in its own type, the
             others in fp32
    """
    groups, batch, points, width = centre.shape
    launch = launch or default_launch("backward", width, precision)
    tiles = batch * triton.cdiv(points, launch.tile)
    programs = min(tiles, max(1, launch.waves * multiprocessors(centre.device) // groups))
    dcentre = torch.empty_like(centre)
    dweight = weight.new_empty((groups, programs, width, width), dtype=torch.float32)
    dbias = weight.new_empty((groups, programs, width), dtype=torch.float32)
    dneighbour = torch.zeros_like(neighbour, dtype=torch.float32)
    edge_backward_kernel[programs, groups](
        centre, neighbour, neighbours, weight, choice, dout, active,
        dcentre, dneighbour, dweight, dbias,
        neighbours.stride(0), neighbours.stride(1), batch, points,
        H=width, NATIVE=centre.is_cuda, **arithmetic(precision), **launch.options(),
    )  # fmt: skip
    return dcentre, dneighbour, dweight.sum(1), dbias.sum(1)


def empty_results(
    centre: Tensor, neighbours: Tensor, with_choice: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """What `forward` returns, not yet filled."""
    word = torch.int32 if neighbours.shape[-1] <= 32 else torch.int64
    shape = centre.shape if with_choice else (0, 0, 0, 0)
    choice = centre.new_empty(shape, dtype=torch.uint8)
    active = centre.new_empty(shape[:3], dtype=word)
    return centre.new_empty(centre.shape), choice, active
