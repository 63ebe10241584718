# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Gated couplings on CUDA: gradients of the weights before the norm.

`triton_gate` says how the kernels work together. Gradients of outputs are the left operand of all
products, which read it from where it was loaded to, without a detour through registers. Gradients
of biases are products with ones, for the same reason.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pdflow.kernels.augmentation.triton_gate import elu_operands, elus

JOBS = 3
"""Jobs of `gate_weights_kernel`: lift and inner, gate, condition."""

ONES = tl.constexpr(16)
"""The fewest columns that a product can have; all of them are equal."""


@triton.jit
def _store_sums(sums_ptr, plus, minus, H: tl.constexpr):
    """Both blocks (H, H) of a weight (H, 2 H)."""
    at = tl.arange(0, H)[:, None] * 2 * H + tl.arange(0, H)[None, :]
    tl.store(sums_ptr + at, plus)
    tl.store(sums_ptr + H + at, minus)


@triton.jit
def _lift_and_inner(
    x_ptr, lift_ptr, lift_bias_ptr, dplanes_ptr, sums_ptr, rows,
    C: tl.constexpr, KEPT: tl.constexpr, KEPT_AT: tl.constexpr, IN: tl.constexpr, H: tl.constexpr,
    TILE: tl.constexpr, STAGES: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums for lift (H, KEPT) and bias (H,), inner (H, 2 H) and bias (H,). Recomputes h."""
    column = tl.arange(0, H)
    channel = tl.arange(0, IN)
    is_channel = channel < KEPT
    lift_at = column[None, :] * KEPT + channel[:, None]
    lift = tl.load(lift_ptr + lift_at, mask=is_channel[:, None], other=0.0).to(DOT)
    lift_bias = tl.load(lift_bias_ptr + column)[None, :]
    du_ptr = dplanes_ptr + rows.to(tl.int64) * H
    dlift = tl.zeros((H, IN), tl.float32)
    dlift_bias = tl.zeros((H, ONES), tl.float32)
    dplus = tl.zeros((H, H), tl.float32)
    dminus = tl.zeros((H, H), tl.float32)
    dbias = tl.zeros((H, ONES), tl.float32)
    programs = tl.num_programs(1)
    for tile in tl.range(tl.program_id(1), tl.cdiv(rows, TILE), programs, num_stages=STAGES):
        row = tile * TILE + tl.arange(0, TILE)[:, None]
        inside = row < rows
        at = row * H + column[None, :]
        kept_at = row * C + KEPT_AT + channel[None, :]
        kept = tl.load(x_ptr + kept_at, mask=inside & is_channel[None, :], other=0.0).to(DOT)
        dh = tl.trans(tl.load(dplanes_ptr + at, mask=inside, other=0.0))
        du = tl.trans(tl.load(du_ptr + at, mask=inside, other=0.0))
        ones = tl.full((TILE, ONES), 1.0, DOT)
        h = tl.dot(kept, lift, input_precision=INPUT_PRECISION) + lift_bias
        dlift = tl.dot(dh, kept, dlift, input_precision=INPUT_PRECISION)
        dlift_bias = tl.dot(dh, ones, dlift_bias, input_precision=INPUT_PRECISION)
        dbias = tl.dot(du, ones, dbias, input_precision=INPUT_PRECISION)
        plus, minus = elus(h)
        dplus = tl.dot(du, plus.to(DOT), dplus, input_precision=INPUT_PRECISION)
        dminus = tl.dot(du, minus.to(DOT), dminus, input_precision=INPUT_PRECISION)
    lift_at = column[:, None] * KEPT + channel[None, :]
    tl.store(sums_ptr + lift_at, dlift, mask=is_channel[None, :])
    sums_ptr += H * KEPT
    tl.store(sums_ptr + column, tl.max(dlift_bias, 1))
    sums_ptr += H
    _store_sums(sums_ptr, dplus, dminus, H)
    tl.store(sums_ptr + 2 * H * H + column, tl.max(dbias, 1))


@triton.jit
def _gates(
    x_ptr, dvalue_ptr, sums_ptr, rows,
    H: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums for a weight (2 H, 2 H) and bias (2 H,) that map x (M, H) to value and gate.

    dvalue_ptr  gradients of value and gate (2, M, H)
    """
    column = tl.arange(0, H)
    dgate_ptr = dvalue_ptr + rows.to(tl.int64) * H
    value_plus = tl.zeros((H, H), tl.float32)
    value_minus = tl.zeros((H, H), tl.float32)
    gate_plus = tl.zeros((H, H), tl.float32)
    gate_minus = tl.zeros((H, H), tl.float32)
    value_bias = tl.zeros((H, ONES), tl.float32)
    gate_bias = tl.zeros((H, ONES), tl.float32)
    programs = tl.num_programs(1)
    for tile in tl.range(tl.program_id(1), tl.cdiv(rows, TILE), programs, num_stages=STAGES):
        row = tile * TILE + tl.arange(0, TILE)[:, None]
        inside = row < rows
        at = row * H + column[None, :]
        dvalue = tl.trans(tl.load(dvalue_ptr + at, mask=inside, other=0.0))
        dgate = tl.trans(tl.load(dgate_ptr + at, mask=inside, other=0.0))
        x = tl.load(x_ptr + at, mask=inside, other=0.0)
        ones = tl.full((TILE, ONES), 1.0, DOT)
        value_bias = tl.dot(dvalue, ones, value_bias, input_precision=INPUT_PRECISION)
        gate_bias = tl.dot(dgate, ones, gate_bias, input_precision=INPUT_PRECISION)
        plus, minus = elu_operands(x.to(tl.float32), DOT)
        value_plus = tl.dot(dvalue, plus, value_plus, input_precision=INPUT_PRECISION)
        value_minus = tl.dot(dvalue, minus, value_minus, input_precision=INPUT_PRECISION)
        gate_plus = tl.dot(dgate, plus, gate_plus, input_precision=INPUT_PRECISION)
        gate_minus = tl.dot(dgate, minus, gate_minus, input_precision=INPUT_PRECISION)
    _store_sums(sums_ptr, value_plus, value_minus, H)
    sums_ptr += 2 * H * H
    _store_sums(sums_ptr, gate_plus, gate_minus, H)
    sums_ptr += 2 * H * H
    tl.store(sums_ptr + column, tl.max(value_bias, 1))
    tl.store(sums_ptr + H + column, tl.max(gate_bias, 1))


@triton.jit
def gate_weights_kernel(
    x_ptr, features_ptr, planes_ptr, lift_ptr, lift_bias_ptr, dplanes_ptr, sums_ptr, rows,
    C: tl.constexpr, KEPT: tl.constexpr, KEPT_AT: tl.constexpr, IN: tl.constexpr, H: tl.constexpr,
    SUMS: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums of every num_programs(1)-th tile for the weights of one job: program_id(0).

    dplanes_ptr  gradients of h, u, value and gate (4, M, H)
    sums_ptr     (num_programs(1), SUMS): weights and biases from lift to condition
    """
    job = tl.program_id(0)
    sums_ptr += tl.program_id(1).to(tl.int64) * SUMS
    if job == 0:
        _lift_and_inner(
            x_ptr, lift_ptr, lift_bias_ptr, dplanes_ptr, sums_ptr, rows,
            C, KEPT, KEPT_AT, IN, H, TILE, STAGES, DOT, INPUT_PRECISION,
        )  # fmt: skip
    else:
        z_ptr = tl.where(job == 1, planes_ptr, features_ptr)
        sums_ptr += H * (KEPT + 1) + H * (2 * H + 1) + (job - 1) * 2 * H * (2 * H + 1)
        dvalue_ptr = dplanes_ptr + 2 * rows.to(tl.int64) * H
        _gates(z_ptr, dvalue_ptr, sums_ptr, rows, H, TILE, STAGES, DOT, INPUT_PRECISION)
