# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""First layer of an EdgeUnit on CUDA, split into what belongs to a point and to its neighbours.

With the row blocks A, B, C of its weight the layer is h (A - C) + n (B + C) + bias for a point h
and a neighbour n: two products per point, none per edge. Inputs are walked through in blocks of
channels. In the backward a program owns a block, the others read the same gradients for theirs.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pdflow.kernels.launch_triton import multiprocessors, sum_partials


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
    INPUT_PRECISION: tl.constexpr,
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
        x = tl.load(x_ptr + row * stride + channel[None, :], mask=inside, other=0.0)
        to_centre, to_neighbour = _split_weight(weight, channel, inputs, column, H)
        centre = tl.dot(x, to_centre, centre, input_precision=INPUT_PRECISION)
        neighbour = tl.dot(x, to_neighbour, neighbour, input_precision=INPUT_PRECISION)
    at = group * rows.to(tl.int64) * H + (row * H + column[None, :])
    tl.store(centre_ptr + at, centre, mask=row < rows)
    tl.store(neighbour_ptr + at, neighbour, mask=row < rows)


@triton.jit
def split_backward_kernel(
    x_ptr, weight_ptr, dcentre_ptr, dneighbour_ptr, dx_ptr, sums_ptr, rows, stride, inputs, width,
    GROUPS: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of channels of every num_programs-th tile, for all groups."""
    program = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_channel = channel < inputs
    column = tl.arange(0, H)
    sums = sums_ptr + program.to(tl.int64) * GROUPS * (3 * inputs + 1) * H
    for group in tl.static_range(GROUPS):
        weight = weight_ptr + group * 3 * inputs * H
        to_centre, to_neighbour = _split_weight(weight, channel, inputs, column, H)
        dto_centre = tl.zeros((BLOCK, H), tl.float32)
        dto_neighbour = tl.zeros((BLOCK, H), tl.float32)
        dbias = tl.zeros((H,), tl.float32)
        for tile in tl.range(program, tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=1):
            row = tile * TILE + tl.arange(0, TILE)[:, None]
            inside = (row < rows) & is_channel[None, :]
            x = tl.load(x_ptr + row * stride + channel[None, :], mask=inside, other=0.0)
            first = group * rows.to(tl.int64) * H
            at = row * H + column[None, :]
            dcentre = tl.load(dcentre_ptr + first + at, mask=row < rows, other=0.0)
            dcentre = dcentre.to(tl.float32)
            dneighbour = tl.load(dneighbour_ptr + first + at, mask=row < rows, other=0.0)
            dneighbour = dneighbour.to(tl.float32)
            dbias += tl.sum(dcentre, 0)
            dto_centre = tl.dot(tl.trans(x), dcentre, dto_centre, input_precision=INPUT_PRECISION)
            dto_neighbour = tl.dot(
                tl.trans(x), dneighbour, dto_neighbour, input_precision=INPUT_PRECISION
            )
            dx = tl.dot(dcentre, tl.trans(to_centre), input_precision=INPUT_PRECISION)
            dx = tl.dot(dneighbour, tl.trans(to_neighbour), dx, input_precision=INPUT_PRECISION)
            dx_at = row * stride + channel[None, :]
            if group == 1:
                dx += tl.load(dx_ptr + dx_at, mask=inside, other=0.0)
            tl.store(dx_ptr + dx_at, dx, mask=inside)
        dweight = sums + group * 3 * inputs * H
        places = channel[:, None] * width + column[None, :]
        mask = is_channel[:, None]
        tl.store(dweight + places, dto_centre, mask=mask)
        tl.store(dweight + inputs * H + places, dto_neighbour, mask=mask)
        tl.store(dweight + 2 * inputs * H + places, dto_neighbour - dto_centre, mask=mask)
        if tl.program_id(1) == 0:
            tl.store(sums + GROUPS * 3 * inputs * H + group * H + column, dbias)


def forward(
    x: Tensor,
    inputs: int,
    weight: Tensor,
    bias: Tensor,
    precision: str,
    tile: int = 128,
    warps: int = 8,
) -> tuple[Tensor, Tensor]:
    """Launch the forward kernel.

    x        (B, N, >= inputs), of which the first `inputs` channels are read
    weight   (G, 3 inputs, H), bias (G, H)
    returns  centre and neighbour (G, B, N, H), bf16 where that is the precision
    """
    batch, points, stride = x.shape
    groups, _, width = weight.shape
    rows = batch * points
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    centre, neighbour = (x.new_empty(groups, batch, points, width, dtype=dtype) for _ in range(2))
    block = _block(inputs)
    split_forward_kernel[triton.cdiv(rows, tile), groups](
        x, weight, bias, centre, neighbour, rows, stride, inputs, H=width, BLOCK=block,
        BLOCKS=triton.cdiv(inputs, block), TILE=tile, INPUT_PRECISION=_rounding(precision),
        num_warps=warps,
    )  # fmt: skip
    return centre, neighbour


def backward(
    x: Tensor,
    inputs: int,
    weight: Tensor,
    dcentre: Tensor,
    dneighbour: Tensor,
    precision: str,
    tile: int = 64,
    warps: int = 4,
    waves: int = 2,
) -> tuple[Tensor, Tensor, Tensor]:
    """Launch the backward kernel.

    dcentre, dneighbour  (G, B, N, H), each of any type
    returns              gradients of x, weight and bias
    """
    batch, points, stride = x.shape
    groups, _, width = weight.shape
    rows = batch * points
    block = _block(inputs)
    blocks = triton.cdiv(inputs, block)
    programs = max(1, waves * multiprocessors(x.device) // blocks)
    programs = min(triton.cdiv(rows, tile), programs)
    dx = torch.empty_like(x) if inputs == stride else torch.zeros_like(x)
    sums = x.new_empty(programs, groups * (3 * inputs + 1) * width)
    split_backward_kernel[programs, blocks](
        x, weight, dcentre, dneighbour, dx, sums, rows, stride, inputs, width, GROUPS=groups,
        H=width, BLOCK=block, TILE=tile, INPUT_PRECISION=_rounding(precision), num_warps=warps,
    )  # fmt: skip
    dweight, dbias = sum_partials(sums).split([weight.numel(), groups * width])
    return dx, dweight.view_as(weight), dbias.view(groups, width)


def _block(inputs: int) -> int:
    return min(64, max(16, int(triton.next_power_of_2(inputs))))


def _rounding(precision: str) -> str:
    return "ieee" if precision == "ieee" else "tf32"
