# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Couplings of the augmentation on CUDA: gradients of the weights below the norm.

`gated_triton` says how the kernels work together.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pdflow.kernels.gated_triton import _elus

JOBS = 6
"""Products of `gate_weights_kernel` that programs share: two halves of gate and condition each."""


@triton.jit
def _add_products(
    d_ptr, x_ptr, sums_ptr, bias_ptr, rows, inputs,
    IN: tl.constexpr, H: tl.constexpr, BOTH: tl.constexpr, TILE: tl.constexpr,
    STAGES: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums over tiles for a weight, from gradients (M, H) of its outputs, and for its bias (H,).

    With BOTH, the weight (H, 2 IN) takes elu(x) and elu(-x) of x (M, IN). Without, it takes x
    itself, and is (H, inputs); the other columns of x are padding.
    """
    out = tl.arange(0, H)
    column = tl.arange(0, IN)
    plus_sum = tl.zeros((H, IN), tl.float32)
    minus_sum = tl.zeros((H, IN), tl.float32)
    bias_sum = tl.zeros((H, 16), tl.float32)
    programs = tl.num_programs(1)
    for tile in tl.range(tl.program_id(1), tl.cdiv(rows, TILE), programs, num_stages=STAGES):
        row = tile * TILE + tl.arange(0, TILE)[:, None]
        inside = row < rows
        # Gradients are the left operand, which products take from where they were loaded to.
        d = tl.load(d_ptr + row * H + out[None, :], mask=inside, other=0.0)
        x = tl.load(x_ptr + row * IN + column[None, :], mask=inside, other=0.0)
        turned = tl.trans(d)
        ones = tl.full((TILE, 16), 1.0, d.dtype)
        bias_sum = tl.dot(turned, ones, bias_sum, input_precision=INPUT_PRECISION)
        if BOTH:
            plus, minus = _elus(x.to(tl.float32))
            plus = plus.to(d.dtype)
            minus = minus.to(d.dtype)
            plus_sum = tl.dot(turned, plus, plus_sum, input_precision=INPUT_PRECISION)
            minus_sum = tl.dot(turned, minus, minus_sum, input_precision=INPUT_PRECISION)
        else:
            plus_sum = tl.dot(turned, x, plus_sum, input_precision=INPUT_PRECISION)
    if BOTH:
        at = out[:, None] * 2 * IN + column[None, :]
        tl.store(sums_ptr + at, plus_sum)
        tl.store(sums_ptr + IN + at, minus_sum)
    else:
        at = out[:, None] * inputs + column[None, :]
        tl.store(sums_ptr + at, plus_sum, mask=(column < inputs)[None, :])
    # All columns are the same.
    tl.store(bias_ptr + out, tl.max(bias_sum, 1))


@triton.jit
def gate_weights_kernel(
    features_ptr, planes_ptr, h_ptr, kept_ptr, dplanes_ptr, sums_ptr, rows,
    KEPT: tl.constexpr, IN: tl.constexpr, H: tl.constexpr, SUMS: tl.constexpr,
    TILE: tl.constexpr, STAGES: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums of every num_programs-th tile for one product with weights, from lift to condition.

    program_id(0) tells which: that with lift, inner, value of gate, gate of gate, or the same two
    of condition. program_id(1) tells which tiles. Sums (num_programs, SUMS) are in the order of
    `GatedWeights`, weights and biases.
    """
    job = tl.program_id(0)
    plane = rows.to(tl.int64) * H
    sums = sums_ptr + tl.program_id(1).to(tl.int64) * SUMS
    if job == 0:
        _add_products(
            dplanes_ptr, kept_ptr, sums, sums + H * KEPT, rows, KEPT,
            IN, H, False, TILE, STAGES, INPUT_PRECISION,
        )  # fmt: skip
    elif job == 1:
        sums += H * (KEPT + 1)
        _add_products(
            dplanes_ptr + plane, h_ptr, sums, sums + 2 * H * H, rows, H,
            H, H, True, TILE, STAGES, INPUT_PRECISION,
        )  # fmt: skip
    else:
        half = job % 2
        x_ptr = tl.where(job < 4, planes_ptr, features_ptr)
        sums += H * (KEPT + 1) + H * (2 * H + 1) + tl.where(job < 4, 0, 2 * H * (2 * H + 1))
        _add_products(
            dplanes_ptr + (2 + half) * plane, x_ptr, sums + half * 2 * H * H,
            sums + 4 * H * H + half * H, rows, H,
            H, H, True, TILE, STAGES, INPUT_PRECISION,
        )  # fmt: skip
