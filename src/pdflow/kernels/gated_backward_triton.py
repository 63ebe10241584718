# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Couplings of the augmentation on CUDA: from the norm down; see `gated_triton` for all of them."""

from __future__ import annotations

import triton
import triton.language as tl

from pdflow.kernels.gated_triton import _elus, _sigmoid


@triton.jit
def _turned(weight, H: tl.constexpr, DOT: tl.constexpr):
    """A block of W (.., 2 H), as gradients are multiplied with it."""
    column = tl.arange(0, H)
    return tl.load(weight + column[:, None] * 2 * H + column[None, :]).to(DOT)


@triton.jit
def _back(x, plus, minus):
    """Gradient of x, given those of elu(x) and elu(-x)."""
    slope = tl.exp(-tl.abs(x))
    return tl.where(x > 0, plus, plus * slope) - tl.where(x < 0, minus, minus * slope)


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
    last_ptr, products_ptr, norm_ptr, gamma_ptr, part, rows,
    MOVED: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr, BATCH: tl.constexpr,
    DOT: tl.constexpr,
):  # fmt: skip
    """Both halves of the last layer times the norm's factor, and what statistics of a batch add.

    That is `slope` times the norm's input, plus `offset`.

    BATCH  whether the norm took its statistics from these points
    """
    column = tl.arange(0, H)
    products_ptr += part * 2 * MOVED * (H + 2)
    norm_ptr += part * 2 * H
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
    last_ptr, products_ptr, gamma_ptr, beta_ptr, dnorm_ptr, dlast_layer_ptr, parts,
    MOVED: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    """Gradients of gamma and beta (2, H), and of the last layer: weight, bias and log scale."""
    column = tl.arange(0, H)[None, :]
    out = tl.arange(0, 2 * OUT)
    is_out = out < 2 * MOVED
    at = out[:, None] * H + column
    products = tl.zeros((2 * OUT, H), tl.float32)
    bias = tl.zeros((2 * OUT,), tl.float32)
    log_scale = tl.zeros((2 * OUT,), tl.float32)
    for _ in range(parts):
        products += tl.load(products_ptr + at, mask=is_out[:, None], other=0.0)
        products_ptr += 2 * MOVED * H
        bias += tl.load(products_ptr + out, mask=is_out, other=0.0)
        log_scale += tl.load(products_ptr + 2 * MOVED + out, mask=is_out, other=0.0)
        products_ptr += 4 * MOVED
    last = tl.load(last_ptr + at, mask=is_out[:, None], other=0.0)
    tl.store(dnorm_ptr + tl.arange(0, H), tl.sum(last * products, 0))
    tl.store(dnorm_ptr + H + tl.arange(0, H), tl.sum(last * bias[:, None], 0))
    dweight = tl.load(gamma_ptr + column) * products + tl.load(beta_ptr + column) * bias[:, None]
    tl.store(dlast_layer_ptr + at, dweight, mask=is_out[:, None])
    dlast_layer_ptr += 2 * MOVED * H
    tl.store(dlast_layer_ptr + out, bias, mask=is_out)
    tl.store(dlast_layer_ptr + 2 * MOVED + out, log_scale, mask=is_out)


@triton.jit
def _to_norm(
    dlast_ptr, hidden_ptr, to_shift, to_raw, slope, offset, row, inside, points,
    MOVED: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient of the norm's input for a tile of points."""
    out = tl.arange(0, OUT)
    is_moved = inside & (out < MOVED)[None, :]
    out_at = row[:, None] * MOVED + out[None, :]
    dshift = tl.load(dlast_ptr + out_at, mask=is_moved, other=0.0)
    draw = tl.load(dlast_ptr + points * MOVED + out_at, mask=is_moved, other=0.0)
    d = tl.dot(dshift, to_shift, input_precision=INPUT_PRECISION)
    d = tl.dot(draw, to_raw, d, input_precision=INPUT_PRECISION)
    at = row[:, None] * H + tl.arange(0, H)[None, :]
    hidden = tl.load(hidden_ptr + at, mask=inside, other=0.0).to(tl.float32)
    return tl.where(inside, d + slope * hidden + offset, 0.0)


@triton.jit
def _store_block(ptr, sums, stride, H: tl.constexpr):
    """Sums (in, out) of a block of a weight (out, in) whose rows lie `stride` apart."""
    column = tl.arange(0, H)
    tl.store(ptr + column[None, :] * stride + column[:, None], sums)


@triton.jit
def gates_backward_kernel(
    features_ptr, planes_ptr, condition_ptr, gate_ptr, last_ptr, gamma_ptr, hidden_ptr, norm_ptr,
    dlast_ptr, products_ptr, more_ptr, dfeatures_ptr, du_ptr, sums_ptr, rows,
    MOVED: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr, BATCH: tl.constexpr,
    HAS_MORE: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile down to the features, or to u: the two inputs of the gates.

    program_id(1) tells which part of the batch, program_id(2) which input. A program leaves sums
    for its weight (2 H, 2 H); those of the features leave sums for the bias (2 H,), too.

    HAS_MORE  whether dfeatures begins with what came from later couplings
    """
    column = tl.arange(0, H)
    part = tl.program_id(1)
    points = rows.to(tl.int64) * tl.num_programs(1)
    to_shift, to_raw, slope, offset = _norm_and_last(
        last_ptr, products_ptr, norm_ptr, gamma_ptr, part, rows, MOVED, OUT, H, BATCH, DOT
    )
    is_features = tl.program_id(2) == 0
    weight_ptr = tl.where(is_features, condition_ptr, gate_ptr)
    input_ptr = tl.where(is_features, features_ptr, planes_ptr)
    dinput_ptr = tl.where(is_features, dfeatures_ptr, du_ptr)
    LOWER: tl.constexpr = 2 * H * H
    value_plus = _turned(weight_ptr, H, DOT)
    value_minus = _turned(weight_ptr + H, H, DOT)
    gate_plus = _turned(weight_ptr + LOWER, H, DOT)
    gate_minus = _turned(weight_ptr + LOWER + H, H, DOT)
    dvalue_plus = tl.zeros((H, H), tl.float32)
    dvalue_minus = tl.zeros((H, H), tl.float32)
    dgate_plus = tl.zeros((H, H), tl.float32)
    dgate_minus = tl.zeros((H, H), tl.float32)
    value_sum = tl.zeros((H,), tl.float32)
    gate_sum = tl.zeros((H,), tl.float32)
    plane = points * H
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=1):
        row = tile * TILE + tl.arange(0, TILE)
        inside = (row < rows)[:, None]
        is_more = (row < tl.where(is_features, rows, 0))[:, None]
        row += part * rows
        at = row[:, None] * H + column[None, :]
        d = _to_norm(
            dlast_ptr, hidden_ptr, to_shift, to_raw, slope, offset, row, inside, points,
            MOVED, OUT, H, INPUT_PRECISION,
        )  # fmt: skip
        value = tl.load(planes_ptr + plane + at, mask=inside, other=0.0).to(tl.float32)
        gate = tl.load(planes_ptr + 2 * plane + at, mask=inside, other=0.0).to(tl.float32)
        gate = _sigmoid(gate)
        dvalue = d * gate
        dgate = dvalue * value * (1.0 - gate)
        value_sum += tl.sum(dvalue, 0)
        gate_sum += tl.sum(dgate, 0)
        dvalue = dvalue.to(DOT)
        dgate = dgate.to(DOT)
        z = tl.load(input_ptr + at, mask=inside, other=0.0).to(tl.float32)
        plus, minus = _elus(z)
        plus = tl.trans(plus.to(DOT))
        minus = tl.trans(minus.to(DOT))
        dvalue_plus = tl.dot(plus, dvalue, dvalue_plus, input_precision=INPUT_PRECISION)
        dgate_plus = tl.dot(plus, dgate, dgate_plus, input_precision=INPUT_PRECISION)
        dvalue_minus = tl.dot(minus, dvalue, dvalue_minus, input_precision=INPUT_PRECISION)
        dgate_minus = tl.dot(minus, dgate, dgate_minus, input_precision=INPUT_PRECISION)
        dplus = tl.dot(dvalue, value_plus, input_precision=INPUT_PRECISION)
        dplus = tl.dot(dgate, gate_plus, dplus, input_precision=INPUT_PRECISION)
        dminus = tl.dot(dvalue, value_minus, input_precision=INPUT_PRECISION)
        dminus = tl.dot(dgate, gate_minus, dminus, input_precision=INPUT_PRECISION)
        dz = _back(z, dplus, dminus)
        if HAS_MORE:
            dz += tl.load(more_ptr + at, mask=is_more, other=0.0).to(tl.float32)
        tl.store(dinput_ptr + at, dz, mask=inside)
    program = part * tl.num_programs(0) + tl.program_id(0)
    sums = sums_ptr + program.to(tl.int64) * (4 * LOWER + 2 * H)
    is_bias = column < tl.where(is_features, H, 0)
    tl.store(sums + 4 * LOWER + column, value_sum, mask=is_bias)
    tl.store(sums + 4 * LOWER + H + column, gate_sum, mask=is_bias)
    sums += tl.where(is_features, 0, 2 * LOWER)
    _store_block(sums, dvalue_plus, 2 * H, H)
    _store_block(sums + H, dvalue_minus, 2 * H, H)
    _store_block(sums + LOWER, dgate_plus, 2 * H, H)
    _store_block(sums + LOWER + H, dgate_minus, 2 * H, H)


@triton.jit
def kept_backward_kernel(
    x_ptr, du_ptr, lift_ptr, lift_bias_ptr, inner_ptr, gamma_ptr, beta_ptr, last_ptr,
    hidden_ptr, norm_ptr, dlast_ptr, products_ptr, dx_ptr, dnorm_ptr, dlast_layer_ptr, sums_ptr,
    rows,
    C: tl.constexpr, KEPT: tl.constexpr, KEPT_AT: tl.constexpr, MOVED: tl.constexpr,
    IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr, BATCH: tl.constexpr, SUMS: tl.constexpr,
    TILE: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile from u down: what the network adds to dx, and sums for weights.

    The sums are those of lift (H, KEPT) and bias, and inner (H, 2 H) and bias. The first program
    gives the gradients of norm and last layer.
    """
    column = tl.arange(0, H)
    part = tl.program_id(1)
    parts = tl.num_programs(1)
    points = rows.to(tl.int64) * parts
    if (tl.program_id(0) == 0) & (part == 0):
        _store_last(
            last_ptr, products_ptr, gamma_ptr, beta_ptr, dnorm_ptr, dlast_layer_ptr, parts,
            MOVED, OUT, H,
        )  # fmt: skip
    to_shift, to_raw, slope, offset = _norm_and_last(
        last_ptr, products_ptr, norm_ptr, gamma_ptr, part, rows, MOVED, OUT, H, BATCH, DOT
    )
    inner_plus = _turned(inner_ptr, H, DOT)
    inner_minus = _turned(inner_ptr + H, H, DOT)
    channel = tl.arange(0, IN)
    is_channel = channel < KEPT
    lift_at = column[:, None] * KEPT + channel[None, :]
    lift = tl.load(lift_ptr + lift_at, mask=is_channel[None, :], other=0.0).to(DOT)
    lift_bias = tl.load(lift_bias_ptr + column)[None, :]
    dinner_plus = tl.zeros((H, H), tl.float32)
    dinner_minus = tl.zeros((H, H), tl.float32)
    dlift = tl.zeros((H, IN), tl.float32)
    u_sum = tl.zeros((H,), tl.float32)
    h_sum = tl.zeros((H,), tl.float32)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=1):
        row = tile * TILE + tl.arange(0, TILE)
        inside = (row < rows)[:, None]
        row += part * rows
        d = _to_norm(
            dlast_ptr, hidden_ptr, to_shift, to_raw, slope, offset, row, inside, points,
            MOVED, OUT, H, INPUT_PRECISION,
        )  # fmt: skip
        du = tl.load(du_ptr + row[:, None] * H + column[None, :], mask=inside, other=0.0)
        u_sum += tl.sum(du.to(tl.float32), 0)
        is_kept = inside & is_channel[None, :]
        kept_at = row[:, None] * C + KEPT_AT + channel[None, :]
        kept = tl.load(x_ptr + kept_at, mask=is_kept, other=0.0).to(DOT)
        h = tl.dot(kept, tl.trans(lift), input_precision=INPUT_PRECISION) + lift_bias
        plus, minus = _elus(h)
        plus = tl.trans(plus.to(DOT))
        minus = tl.trans(minus.to(DOT))
        dinner_plus = tl.dot(plus, du, dinner_plus, input_precision=INPUT_PRECISION)
        dinner_minus = tl.dot(minus, du, dinner_minus, input_precision=INPUT_PRECISION)
        dplus = tl.dot(du, inner_plus, input_precision=INPUT_PRECISION)
        dminus = tl.dot(du, inner_minus, input_precision=INPUT_PRECISION)
        dh = d + _back(h, dplus, dminus)
        h_sum += tl.sum(dh, 0)
        dh = dh.to(DOT)
        dlift = tl.dot(tl.trans(dh), kept, dlift, input_precision=INPUT_PRECISION)
        dkept = tl.dot(dh, lift, input_precision=INPUT_PRECISION)
        dkept += tl.load(dx_ptr + kept_at, mask=is_kept, other=0.0)
        tl.store(dx_ptr + kept_at, dkept, mask=is_kept)
    program = part * tl.num_programs(0) + tl.program_id(0)
    sums = sums_ptr + program.to(tl.int64) * SUMS
    tl.store(sums + lift_at, dlift, mask=is_channel[None, :])
    sums += H * KEPT
    tl.store(sums + column, h_sum)
    sums += H
    _store_block(sums, dinner_plus, 2 * H, H)
    _store_block(sums + H, dinner_minus, 2 * H, H)
    tl.store(sums + 2 * H * H + column, u_sum)
