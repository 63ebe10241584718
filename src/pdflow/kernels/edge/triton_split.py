# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""First layer of an EdgeUnit on CUDA, split into the parts of a point and of its neighbours.

With the row blocks A, B, C of its weight the layer is h (A - C) + n (B + C) + bias for a point h
and a neighbour n: two products per point, none per edge. The forward loops over blocks of channels.
In the backward, a program has one block of channels. All groups are in one product, which sums
their shares of the gradient of the inputs.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pdflow.kernels.triton_launch import arithmetic, multiprocessors, sum_partials


@triton.jit
def _column(channel, stride, FLIP: tl.constexpr):
    """Place of a channel of a point; FLIP counts from the last."""
    return stride - 1 - channel if FLIP else channel


@triton.jit
def _split_weight(weight_ptr, row, inputs, column, H: tl.constexpr):
    """(A - C) and (B + C) for some rows of the blocks A, B, C of one group."""
    inside = (row < inputs)[:, None]
    at = row[:, None] * H + column[None, :]
    own = tl.load(weight_ptr + at, mask=inside, other=0.0)
    other = tl.load(weight_ptr + inputs * H + at, mask=inside, other=0.0)
    difference = tl.load(weight_ptr + 2 * inputs * H + at, mask=inside, other=0.0)
    return own - difference, other + difference


@triton.jit
def split_forward_kernel(
    x_ptr, weight_ptr, bias_ptr, centre_ptr, neighbour_ptr, rows, stride, inputs,
    H: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr, TILE: tl.constexpr,
    FLIP: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """TILE points of one group."""
    group = tl.program_id(1)
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    column = tl.arange(0, H)
    weight = weight_ptr + group * 3 * inputs * H
    centre = tl.zeros((TILE, H), tl.float32) + tl.load(bias_ptr + group * H + column)[None, :]
    neighbour = tl.zeros((TILE, H), tl.float32)
    for block in tl.static_range(BLOCKS):
        channel = block * BLOCK + tl.arange(0, BLOCK)
        inside = (row < rows) & (channel < inputs)[None, :]
        at = row * stride + _column(channel, stride, FLIP)[None, :]
        x = tl.load(x_ptr + at, mask=inside, other=0.0)
        to_centre, to_neighbour = _split_weight(weight, channel, inputs, column, H)
        centre = tl.dot(x, to_centre, centre, input_precision=INPUT_PRECISION)
        neighbour = tl.dot(x, to_neighbour, neighbour, input_precision=INPUT_PRECISION)
    at = group * rows.to(tl.int64) * H + (row * H + column[None, :])
    tl.store(centre_ptr + at, centre, mask=row < rows)
    tl.store(neighbour_ptr + at, neighbour, mask=row < rows)


@triton.jit
def split_backward_kernel(
    x_ptr, weight_ptr, dcentre_ptr, dneighbour_ptr, more_ptr, dx_ptr, sums_ptr, rows, stride,
    inputs, GROUPS: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
    OTHERS: tl.constexpr, HAS_MORE: tl.constexpr, FLIP: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of channels of every num_programs-th tile, for all groups.

    The channel after the last input is 1 everywhere: its row of the gradient of the weight is the
    gradient of the bias.

    OTHERS    number of channels that are no inputs, rounded up to a power of 2, or 0
    HAS_MORE  whether dx starts with the gradient from other layers
    """
    program = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    is_input = channel < inputs
    column = tl.arange(0, GROUPS * H)
    group = column // H
    at = (group * 3 * inputs * H + column % H)[:, None] + channel * H
    own = tl.load(weight_ptr + at, mask=is_input, other=0.0)
    other = tl.load(weight_ptr + inputs * H + at, mask=is_input, other=0.0)
    difference = tl.load(weight_ptr + 2 * inputs * H + at, mask=is_input, other=0.0)
    to_centre = (own - difference).to(DOT)
    to_neighbour = (other + difference).to(DOT)
    dto_centre = tl.zeros((GROUPS * H, BLOCK), tl.float32)
    dto_neighbour = tl.zeros((GROUPS * H, BLOCK), tl.float32)
    column_at = (group.to(tl.int64) * rows * H + column % H)[None, :]
    for tile in tl.range(program, tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=1):
        row = tile * TILE + tl.arange(0, TILE)[:, None]
        inside = row < rows
        x_at = row * stride + _column(channel, stride, FLIP)
        x = tl.load(x_ptr + x_at, mask=inside & is_input, other=0.0)
        x = tl.where(channel == inputs, 1.0, x).to(DOT)
        dcentre = tl.load(dcentre_ptr + row * H + column_at, mask=inside, other=0.0).to(DOT)
        dneighbour = tl.load(dneighbour_ptr + row * H + column_at, mask=inside, other=0.0).to(DOT)
        dto_centre = tl.dot(tl.trans(dcentre), x, dto_centre, input_precision=INPUT_PRECISION)
        dto_neighbour = tl.dot(
            tl.trans(dneighbour), x, dto_neighbour, input_precision=INPUT_PRECISION
        )
        dx = tl.dot(dcentre, to_centre, input_precision=INPUT_PRECISION)
        dx = tl.dot(dneighbour, to_neighbour, dx, input_precision=INPUT_PRECISION)
        if HAS_MORE:
            dx += tl.load(more_ptr + x_at, mask=inside & is_input, other=0.0)
        tl.store(dx_ptr + x_at, dx, mask=inside & is_input)
        if OTHERS:
            other_channel = inputs + tl.arange(0, OTHERS)[None, :]
            end = tl.where(tl.program_id(1) == 0, stride, 0)
            is_other = inside & (other_channel < end)
            other_at = row * stride + _column(other_channel, stride, FLIP)
            more = tl.zeros((TILE, OTHERS), tl.float32)
            if HAS_MORE:
                more = tl.load(more_ptr + other_at, mask=is_other, other=0.0)
            tl.store(dx_ptr + other_at, more, mask=is_other)
    sums = sums_ptr + program.to(tl.int64) * GROUPS * (3 * inputs + 1) * H
    tl.store(sums + at, dto_centre, mask=is_input)
    tl.store(sums + inputs * H + at, dto_neighbour, mask=is_input)
    tl.store(sums + 2 * inputs * H + at, dto_neighbour - dto_centre, mask=is_input)
    bias_at = GROUPS * 3 * inputs * H + column[:, None] + tl.zeros_like(channel)
    tl.store(sums + bias_at, dto_centre, mask=channel == inputs)


def forward(
    x: Tensor,
    inputs: int,
    weight: Tensor,
    bias: Tensor,
    flip: bool,
    precision: str,
    tile: int = 128,
    warps: int = 8,
) -> tuple[Tensor, Tensor]:
    """Launch the forward kernel.

    x        (B, N, >= inputs); reads the first `inputs` channels, counted from the last with `flip`
    weight   (G, 3 inputs, H), bias (G, H)
    returns  centre and neighbour (G, B, N, H), in bf16 if that is the precision
    """
    batch, points, stride = x.shape
    groups, _, width = weight.shape
    rows = batch * points
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    centre, neighbour = (x.new_empty(groups, batch, points, width, dtype=dtype) for _ in range(2))
    block = _block(inputs)
    split_forward_kernel[triton.cdiv(rows, tile), groups](
        x, weight, bias, centre, neighbour, rows, stride, inputs, H=width, BLOCK=block,
        BLOCKS=triton.cdiv(inputs, block), TILE=tile, FLIP=flip,
        INPUT_PRECISION=_rounding(precision), num_warps=warps,
    )  # fmt: skip
    return centre, neighbour


def backward(
    x: Tensor,
    inputs: int,
    weight: Tensor,
    dcentre: Tensor,
    dneighbour: Tensor,
    more: Tensor | None,
    flip: bool,
    precision: str,
    tile: int | None = None,
    warps: int = 8,
    waves: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Launch the backward kernel.

    dcentre, dneighbour  (G, B, N, H), each of any type
    more                 (B, N, C) gradient of x from other layers
    flip                 as in the forward pass
    returns              gradients of x, weight and bias
    """
    batch, points, stride = x.shape
    groups, _, width = weight.shape
    rows = batch * points
    block = _block(inputs + 1)
    blocks = triton.cdiv(inputs + 1, block)
    if tile is None:
        tile = min(128, (2**14 if precision == "bf16" else 2**12) // (groups * width))
    programs = max(1, waves * multiprocessors(x.device) // blocks)
    programs = min(triton.cdiv(rows, tile), programs)
    dx = torch.empty_like(x)
    sums = x.new_empty(programs, groups * (3 * inputs + 1) * width)
    split_backward_kernel[programs, blocks](
        x, weight, dcentre, dneighbour, more, dx, sums, rows, stride, inputs, GROUPS=groups,
        H=width, BLOCK=block, TILE=tile, num_warps=warps, **arithmetic(precision),
        OTHERS=triton.next_power_of_2(stride - inputs) if stride > inputs else 0,
        HAS_MORE=more is not None, FLIP=flip,
    )  # fmt: skip
    dweight, dbias = sum_partials(sums).split([weight.numel(), groups * width])
    return dx, dweight.view_as(weight), dbias.view(groups, width)


def _block(channels: int) -> int:
    return min(64, max(16, int(triton.next_power_of_2(channels))))


def _rounding(precision: str) -> str:
    return "ieee" if precision == "ieee" else "tf32"
