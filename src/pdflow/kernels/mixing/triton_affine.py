# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""x A + b, or relu(x A + b), for every point on CUDA, with all gradients in one kernel.

The forward product mixes coordinates, so it keeps the digits of fp32 even if products may be
rounded: each operand is split into two fp16 numbers, and three products are summed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pdflow.kernels.triton_launch import Launch, arithmetic, programs_for, sum_partials, tiling

EXPONENT = tl.constexpr(0x7F800000)
"""Exponent bits of an fp32 number."""
ONE = tl.constexpr(0x3F800000)
"""Bits of 1 in fp32."""


@triton.jit
def _halves(x):
    """Two numbers in fp16 whose sum is x."""
    high = x.to(tl.float16)
    return high, (x - high.to(tl.float32)).to(tl.float16)


@triton.jit
def _powers_of_two(x):
    """The largest power of two that is not above x, or 2^-100, and its reciprocal."""
    bits = tl.maximum(x, 2.0**-100).to(tl.int32, bitcast=True) & EXPONENT
    return bits.to(tl.float32, bitcast=True), (-bits + 2 * ONE).to(tl.float32, bitcast=True)


@triton.jit
def affine_forward_kernel(
    x_ptr, matrix_ptr, bias_ptr, y_ptr, rows,
    IN: tl.constexpr, OUT: tl.constexpr, PADDED_IN: tl.constexpr, PADDED_OUT: tl.constexpr,
    RELU: tl.constexpr, HALVES: tl.constexpr, EVEN: tl.constexpr, TILE: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile of TILE points; the matrix stays in shared memory.

    HALVES  each operand is two fp16 numbers; rows of the matrix are scaled below 2, and channels of
            x by the reciprocals, so that both fit into fp16
    EVEN    all tiles are full
    """
    in_column = tl.arange(0, PADDED_IN)
    out_column = tl.arange(0, PADDED_OUT)
    is_out = out_column < OUT
    matrix = tl.load(
        matrix_ptr + in_column[:, None] * OUT + out_column[None, :],
        mask=(in_column < IN)[:, None] & is_out[None, :],
        other=0.0,
    )
    bias = tl.load(bias_ptr + out_column, mask=is_out, other=0.0)
    if HALVES:
        unit, reciprocal = _powers_of_two(tl.max(tl.abs(matrix), 1))
        high, low = _halves(matrix * reciprocal[:, None])
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=STAGES
    ):
        row = tile * TILE + tl.arange(0, TILE)[:, None]
        inside = row < (tile * TILE + TILE if EVEN else rows)
        x_at = row * IN + in_column[None, :]
        x = tl.load(x_ptr + x_at, mask=inside & (in_column < IN)[None, :], other=0.0)
        x = x.to(tl.float32)
        if HALVES:
            x_high, x_low = _halves(x * unit[None, :])
            y = tl.dot(x_low, high)
            y = tl.dot(x_high, low, y)
            y = tl.dot(x_high, high, y)
        else:
            y = tl.dot(x, matrix, input_precision="ieee")
        y += bias[None, :]
        if RELU:
            y = tl.maximum(y, 0.0)
        y_at = row * OUT + out_column[None, :]
        tl.store(y_ptr + y_at, y, mask=inside & is_out[None, :])


@triton.jit
def affine_backward_kernel(
    x_ptr, matrix_ptr, y_ptr, dy_ptr, dx_ptr, sums_ptr, rows, out_width,
    IN: tl.constexpr, OUT: tl.constexpr, PADDED_IN: tl.constexpr, PADDED_OUT: tl.constexpr,
    RELU: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile; leaves one sum per program for dA and db."""
    in_column = tl.arange(0, PADDED_IN)
    out_column = tl.arange(0, PADDED_OUT)
    is_in = in_column < IN
    is_out = out_column < OUT
    transposed = tl.load(
        matrix_ptr + in_column[None, :] * OUT + out_column[:, None],
        mask=is_in[None, :] & is_out[:, None],
        other=0.0,
    )
    dmatrix = tl.zeros((PADDED_IN, PADDED_OUT), tl.float32)
    dbias = tl.zeros((TILE, PADDED_OUT), tl.float32)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=STAGES
    ):
        row = tile * TILE + tl.arange(0, TILE)[:, None]
        inside = row < rows
        x_at = row * IN + in_column[None, :]
        x = tl.load(x_ptr + x_at, mask=inside & is_in[None, :], other=0.0)
        y_at = row * OUT + out_column[None, :]
        is_y = inside & is_out[None, :]
        dy = tl.load(dy_ptr + y_at, mask=is_y, other=0.0)
        if RELU:
            dy = tl.where(tl.load(y_ptr + y_at, mask=is_y, other=0.0) > 0, dy, 0.0)
        dbias += dy
        dmatrix = tl.dot(tl.trans(x.to(DOT)), dy.to(DOT), dmatrix, input_precision=INPUT_PRECISION)
        dx = tl.dot(dy, transposed, input_precision=INPUT_PRECISION)
        tl.store(dx_ptr + x_at, dx, mask=inside & is_in[None, :])
    sums = sums_ptr + tl.program_id(0).to(tl.int64) * (IN + 1) * OUT
    places = in_column[:, None] * out_width + out_column[None, :]
    tl.store(sums + places, dmatrix, mask=is_in[:, None] & is_out[None, :])
    tl.store(sums + IN * OUT + out_column, tl.sum(dbias, 0), mask=is_out)


class Affine(torch.autograd.Function):
    """`pdflow.kernels.mixing.affine` with its fused backward."""

    @staticmethod
    def forward(ctx, x, matrix, bias, relu, precision):
        """y (B, N, D) for contiguous x (B, N, C), matrix (C, D) and bias (D,)."""
        y = forward(x, matrix, bias, relu, precision)
        ctx.save_for_backward(x, matrix, y if relu else None)
        ctx.precision = precision
        return y

    @staticmethod
    def backward(ctx, dy):
        """Gradients of x, matrix and bias."""
        x, matrix, y = ctx.saved_tensors
        return *backward(x, matrix, y, dy.contiguous(), ctx.precision), None, None


def forward(
    x: Tensor,
    matrix: Tensor,
    bias: Tensor,
    relu: bool,
    precision: str,
    launch: Launch = (64, 4, 4, 1),
) -> Tensor:
    """Launch the forward kernel."""
    rows = x.shape[0] * x.shape[1]
    programs = programs_for(rows, launch, x.device)
    y = matrix.new_empty(*x.shape[:2], matrix.shape[1])
    affine_forward_kernel[(programs,)](
        x, matrix, bias, y, rows, **_sizes(matrix), **tiling(launch), RELU=relu,
        HALVES=precision != "ieee", EVEN=rows % launch[0] == 0,
    )  # fmt: skip
    return y


def backward(
    x: Tensor,
    matrix: Tensor,
    y: Tensor | None,
    dy: Tensor,
    precision: str,
    launch: Launch = (64, 4, 2, 1),
) -> tuple[Tensor, Tensor, Tensor]:
    """Launch the backward kernel: gradients of x, matrix and bias.

    y  output of the relu, if there is one
    """
    rows = x.shape[0] * x.shape[1]
    inputs, outputs = matrix.shape
    programs = programs_for(rows, launch, x.device)
    dx = torch.empty_like(x)
    sums = matrix.new_empty(programs, (inputs + 1) * outputs)
    affine_backward_kernel[(programs,)](
        x, matrix, y, dy, dx, sums, rows, outputs, **_sizes(matrix), **tiling(launch),
        RELU=y is not None, **arithmetic(precision),
    )  # fmt: skip
    total = sum_partials(sums)
    return dx, total[: inputs * outputs].view(inputs, outputs), total[inputs * outputs :]


def _sizes(matrix: Tensor) -> dict[str, int]:
    inputs, outputs = matrix.shape
    return {
        "IN": inputs,
        "OUT": outputs,
        "PADDED_IN": max(16, triton.next_power_of_2(inputs)),
        "PADDED_OUT": max(16, triton.next_power_of_2(outputs)),
    }
