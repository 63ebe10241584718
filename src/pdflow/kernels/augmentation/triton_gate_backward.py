# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Gated couplings on CUDA: gradients from the norm back to features and kept channels.

`triton_gate` says how the kernels work together.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pdflow.kernels.augmentation.triton_gate import four_blocks, sigmoid, two_blocks


@triton.jit
def _back(x, plus, minus):
    """Gradient of x, given those of elu(x) and elu(-x)."""
    slope = tl.exp(-tl.abs(x))
    return tl.where(x > 0, plus - slope * minus, slope * plus - minus)


@triton.jit
def _half_of_last(
    last_ptr, products_ptr, part: tl.constexpr, MOVED: tl.constexpr, OUT: tl.constexpr,
    H: tl.constexpr,
):  # fmt: skip
    """Half of the last layer (OUT, H), and its share of the gradients of beta and gamma."""
    out = tl.arange(0, OUT)
    is_out = out < MOVED
    at = (2 * out + part)[:, None] * H + tl.arange(0, H)[None, :]
    last = tl.load(last_ptr + at, mask=is_out[:, None], other=0.0)
    products = tl.load(products_ptr + at, mask=is_out[:, None], other=0.0)
    sums = tl.load(products_ptr + 2 * MOVED * H + 2 * out + part, mask=is_out, other=0.0)[:, None]
    return last, tl.sum(last * sums, 0), tl.sum(last * products, 0)


@triton.jit
def _norm_and_last(
    last_ptr, products_ptr, norm_ptr, gamma_ptr, rows,
    MOVED: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr, BATCH: tl.constexpr,
    DOT: tl.constexpr,
):  # fmt: skip
    """Both halves of the last layer times the norm's factor, and the share of batch statistics.

    This share of the gradient is `slope` times the norm's input, plus `offset`.

    BATCH  whether the norm took its statistics from these points
    """
    column = tl.arange(0, H)
    to_shift, dbeta, dgamma = _half_of_last(last_ptr, products_ptr, 0, MOVED, OUT, H)
    to_raw, dbeta_raw, dgamma_raw = _half_of_last(last_ptr, products_ptr, 1, MOVED, OUT, H)
    dbeta += dbeta_raw
    dgamma += dgamma_raw
    grow = tl.load(norm_ptr + H + column)
    factor = grow * tl.load(gamma_ptr + column)
    slope = tl.zeros((H,), tl.float32)
    offset = tl.zeros((H,), tl.float32)
    if BATCH:
        slope = -factor * grow * dgamma / rows
        offset = -factor * dbeta / rows - slope * tl.load(norm_ptr + column)
    to_shift = (to_shift * factor[None, :]).to(DOT)
    to_raw = (to_raw * factor[None, :]).to(DOT)
    return to_shift, to_raw, slope[None, :], offset[None, :]


@triton.jit
def _store_last(
    last_ptr, products_ptr, gamma_ptr, beta_ptr, dnorm_ptr, dlast_layer_ptr,
    MOVED: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    """Gradients of gamma and beta (2, H), and of the last layer: weight, bias and log scale."""
    column = tl.arange(0, H)[None, :]
    out = tl.arange(0, 2 * OUT)
    is_out = out < 2 * MOVED
    at = out[:, None] * H + column
    products = tl.load(products_ptr + at, mask=is_out[:, None], other=0.0)
    products_ptr += 2 * MOVED * H
    bias = tl.load(products_ptr + out, mask=is_out, other=0.0)
    log_scale = tl.load(products_ptr + 2 * MOVED + out, mask=is_out, other=0.0)
    last = tl.load(last_ptr + at, mask=is_out[:, None], other=0.0)
    tl.store(dnorm_ptr + tl.arange(0, H), tl.sum(last * products, 0))
    tl.store(dnorm_ptr + H + tl.arange(0, H), tl.sum(last * bias[:, None], 0))
    dweight = tl.load(gamma_ptr + column) * products + tl.load(beta_ptr + column) * bias[:, None]
    tl.store(dlast_layer_ptr + at, dweight, mask=is_out[:, None])
    dlast_layer_ptr += 2 * MOVED * H
    tl.store(dlast_layer_ptr + out, bias, mask=is_out)
    tl.store(dlast_layer_ptr + 2 * MOVED + out, log_scale, mask=is_out)


@triton.jit
def gate_backward_kernel(
    x_ptr, features, planes, lift_ptr, lift_bias_ptr, inner_ptr, gate_ptr, condition_ptr,
    gamma_ptr, beta_ptr, last_ptr, hidden, norm_ptr, dlast_ptr, products_ptr, more,
    dx_ptr, dfeatures_ptr, dplanes_ptr, dnorm_ptr, dlast_layer_ptr, rows,
    C: tl.constexpr, KEPT: tl.constexpr, KEPT_AT: tl.constexpr, MOVED: tl.constexpr,
    IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr, BATCH: tl.constexpr,
    HAS_MORE: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile, back from the norm: dfeatures, and the network's share of dx.

    Leaves the gradients of h, u, value and gate (4, M, H) for the weights. The first program
    computes the gradients of norm and last layer.

    features  tiles of (1, M, H), like hidden and more: Hopper's copy engine loads them, which needs
              no registers for their addresses
    planes    tiles of (3, M, H): u, value and gate
    HAS_MORE  whether dfeatures starts with the gradient from later couplings
    """
    column = tl.arange(0, H)
    if tl.program_id(0) == 0:
        _store_last(
            last_ptr, products_ptr, gamma_ptr, beta_ptr, dnorm_ptr, dlast_layer_ptr, MOVED, OUT, H
        )
    to_shift, to_raw, slope, offset = _norm_and_last(
        last_ptr, products_ptr, norm_ptr, gamma_ptr, rows, MOVED, OUT, H, BATCH, DOT
    )
    condition_value_plus, condition_value_minus, condition_gate_plus, condition_gate_minus = (
        four_blocks(condition_ptr, H, DOT, False)
    )
    value_plus, value_minus, gate_plus, gate_minus = four_blocks(gate_ptr, H, DOT, False)
    inner_plus, inner_minus = two_blocks(inner_ptr, H, DOT, False)
    channel = tl.arange(0, IN)
    lift_at = column[:, None] * KEPT + channel[None, :]
    lift = tl.load(lift_ptr + lift_at, mask=(channel < KEPT)[None, :], other=0.0).to(DOT)
    out = tl.arange(0, OUT)
    plane = rows.to(tl.int64) * H
    programs = tl.num_programs(0)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, TILE), programs, num_stages=STAGES):
        first = tile * TILE
        row = first + tl.arange(0, TILE)
        inside = (row < rows)[:, None]
        at = row[:, None] * H + column[None, :]
        is_moved = inside & (out < MOVED)[None, :]
        out_at = row[:, None] * MOVED + out[None, :]
        dshift = tl.load(dlast_ptr + out_at, mask=is_moved, other=0.0)
        draw = tl.load(dlast_ptr + rows.to(tl.int64) * MOVED + out_at, mask=is_moved, other=0.0)
        is_kept = inside & (channel < KEPT)[None, :]
        kept_at = row[:, None] * C + KEPT_AT + channel[None, :]
        kept = tl.load(x_ptr + kept_at, mask=is_kept, other=0.0).to(DOT)
        value = planes.load([1, first, 0]).reshape(TILE, H).to(tl.float32)
        gate = sigmoid(planes.load([2, first, 0]).reshape(TILE, H).to(tl.float32))
        d = tl.dot(dshift, to_shift, input_precision=INPUT_PRECISION)
        d = tl.dot(draw, to_raw, d, input_precision=INPUT_PRECISION)
        d += slope * hidden.load([0, first, 0]).reshape(TILE, H).to(tl.float32) + offset
        dvalue = d * gate
        dgate = (dvalue * value * (1.0 - gate)).to(DOT)
        dvalue = dvalue.to(DOT)
        tl.store(dplanes_ptr + 2 * plane + at, dvalue, mask=inside)
        tl.store(dplanes_ptr + 3 * plane + at, dgate, mask=inside)
        plus = tl.dot(dvalue, condition_value_plus, input_precision=INPUT_PRECISION)
        plus = tl.dot(dgate, condition_gate_plus, plus, input_precision=INPUT_PRECISION)
        minus = tl.dot(dvalue, condition_value_minus, input_precision=INPUT_PRECISION)
        minus = tl.dot(dgate, condition_gate_minus, minus, input_precision=INPUT_PRECISION)
        f = features.load([0, first, 0]).reshape(TILE, H).to(tl.float32)
        df = _back(f, plus, minus)
        if HAS_MORE:
            df += more.load([0, first, 0]).reshape(TILE, H).to(tl.float32)
        tl.store(dfeatures_ptr + at, df, mask=inside)
        plus = tl.dot(dvalue, value_plus, input_precision=INPUT_PRECISION)
        plus = tl.dot(dgate, gate_plus, plus, input_precision=INPUT_PRECISION)
        minus = tl.dot(dvalue, value_minus, input_precision=INPUT_PRECISION)
        minus = tl.dot(dgate, gate_minus, minus, input_precision=INPUT_PRECISION)
        u = planes.load([0, first, 0]).reshape(TILE, H).to(tl.float32)
        du = _back(u, plus, minus).to(DOT)
        tl.store(dplanes_ptr + plane + at, du, mask=inside)
        plus = tl.dot(du, inner_plus, input_precision=INPUT_PRECISION)
        minus = tl.dot(du, inner_minus, input_precision=INPUT_PRECISION)
        h = tl.dot(kept, tl.trans(lift), input_precision=INPUT_PRECISION)
        h += tl.load(lift_bias_ptr + column)[None, :]
        dh = (d + _back(h, plus, minus)).to(DOT)
        tl.store(dplanes_ptr + at, dh, mask=inside)
        dkept = tl.dot(dh, lift, input_precision=INPUT_PRECISION)
        # No other program adds to these rows, so the order is fixed; it only saves loading dx.
        tl.atomic_add(dx_ptr + kept_at, dkept, mask=is_kept, sem="relaxed")
