# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Backward kernels of the augmentation's couplings; `gated_triton` says how they work together."""

from __future__ import annotations

import triton
import triton.language as tl

from pdflow.kernels.gated_triton import SPEED, _elus, _pairs, _sigmoid


@triton.jit
def shift_backward_kernel(
    x_ptr, y_ptr, hidden_ptr, norm_ptr, log_scale_ptr, shifts_ptr, dy_ptr, dterms_ptr,
    dx_ptr, dlast_ptr, sums_ptr, rows,
    C: tl.constexpr, KEPT: tl.constexpr, KEPT_AT: tl.constexpr, MOVED: tl.constexpr,
    MOVED_AT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
    HAS_TERMS: tl.constexpr, SQUASH: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile: gradients of the last layer's output (2, M, MOVED), and sums.

    The sums of a program are (2 MOVED, H) products with the normalised input of the last layer,
    (2 MOVED,) of the gradients, and (2 MOVED,) for the log scale. dx lacks what goes through the
    network.
    """
    column = tl.arange(0, H)
    out = tl.arange(0, OUT)
    is_out = out < MOVED
    channel = tl.arange(0, IN)
    mean = tl.load(norm_ptr + column)[None, :]
    grow = tl.load(norm_ptr + H + column)[None, :]
    shift_speed = tl.exp(_pairs(log_scale_ptr, out, is_out, 0) * SPEED)
    raw_speed = tl.exp(_pairs(log_scale_ptr, out, is_out, 1) * SPEED)
    shift_products = tl.zeros((H, OUT), tl.float32)
    raw_products = tl.zeros((H, OUT), tl.float32)
    shift_sum = tl.zeros((TILE, OUT), tl.float32)
    raw_sum = tl.zeros((TILE, OUT), tl.float32)
    shift_log = tl.zeros((TILE, OUT), tl.float32)
    raw_log = tl.zeros((TILE, OUT), tl.float32)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=1):
        row = tile * TILE + tl.arange(0, TILE)
        is_row = row < rows
        is_moved = is_row[:, None] & is_out[None, :]
        is_kept = is_row[:, None] & (channel < KEPT)[None, :]
        kept_at = row[:, None] * C + KEPT_AT + channel[None, :]
        moved_at = row[:, None] * C + MOVED_AT + out[None, :]
        dkept = tl.load(dy_ptr + kept_at, mask=is_kept, other=0.0)
        dmoved = tl.load(dy_ptr + moved_at, mask=is_moved, other=0.0)
        dterms = tl.zeros((TILE, 1), tl.float32)
        if HAS_TERMS:
            dterms = tl.load(dterms_ptr + row, mask=is_row, other=0.0)[:, None]
        if SQUASH:
            y = tl.load(y_ptr + kept_at, mask=is_kept, other=0.0)
            dkept = dkept * y * (1.0 - y) + dterms * (1.0 - 2.0 * y)
            y = tl.load(y_ptr + moved_at, mask=is_moved, other=0.0)
            dmoved = dmoved * y * (1.0 - y) + dterms * (1.0 - 2.0 * y)
        tl.store(dx_ptr + kept_at, dkept, mask=is_kept)
        at = row[:, None] * MOVED + out[None, :]
        lower = rows.to(tl.int64) * MOVED
        shift = tl.load(shifts_ptr + at, mask=is_moved, other=0.0)
        raw = tl.load(shifts_ptr + lower + at, mask=is_moved, other=0.0)
        moved = tl.load(x_ptr + moved_at, mask=is_moved, other=0.0) + shift
        scale = _sigmoid(raw)
        dshift = dmoved * scale
        tl.store(dx_ptr + moved_at, dshift, mask=is_moved)
        draw = (dshift * moved + dterms) * (1.0 - scale)
        dshift = tl.where(is_moved, dshift, 0.0)
        draw = tl.where(is_moved, draw, 0.0)
        shift_log += dshift * shift
        raw_log += draw * raw
        dshift = dshift * shift_speed
        draw = draw * raw_speed
        shift_sum += dshift
        raw_sum += draw
        tl.store(dlast_ptr + at, dshift, mask=is_moved)
        tl.store(dlast_ptr + lower + at, draw, mask=is_moved)
        hidden = tl.load(
            hidden_ptr + row[:, None] * H + column[None, :], mask=is_row[:, None], other=0.0
        )
        normal = tl.trans(((hidden - mean) * grow).to(DOT))
        shift_products = tl.dot(
            normal, dshift.to(DOT), shift_products, input_precision=INPUT_PRECISION
        )
        raw_products = tl.dot(normal, draw.to(DOT), raw_products, input_precision=INPUT_PRECISION)
    WIDTH: tl.constexpr = 2 * MOVED
    sums = sums_ptr + tl.program_id(0).to(tl.int64) * WIDTH * (H + 2)
    place = 2 * out[None, :] * H + column[:, None]
    tl.store(sums + place, shift_products, mask=is_out[None, :])
    tl.store(sums + place + H, raw_products, mask=is_out[None, :])
    sums += WIDTH * H
    tl.store(sums + 2 * out, tl.sum(shift_sum, 0), mask=is_out)
    tl.store(sums + 2 * out + 1, tl.sum(raw_sum, 0), mask=is_out)
    tl.store(sums + WIDTH + 2 * out, tl.sum(shift_log, 0) * SPEED, mask=is_out)
    tl.store(sums + WIDTH + 2 * out + 1, tl.sum(raw_log, 0) * SPEED, mask=is_out)


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
def _of_last(
    last_ptr, products_ptr, gamma, beta, dweight_ptr, part: tl.constexpr,
    MOVED: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    """Half of the last layer (OUT, H), and its share of the gradients of beta and gamma."""
    out = tl.arange(0, OUT)
    is_out = out < MOVED
    at = (2 * out + part)[:, None] * H + tl.arange(0, H)[None, :]
    last = tl.load(last_ptr + at, mask=is_out[:, None], other=0.0)
    products = tl.load(products_ptr + at, mask=is_out[:, None], other=0.0)
    sums = tl.load(products_ptr + 2 * MOVED * H + 2 * out + part, mask=is_out, other=0.0)[:, None]
    if tl.program_id(0) == 0:
        dweight = gamma[None, :] * products + beta[None, :] * sums
        tl.store(dweight_ptr + at, dweight, mask=is_out[:, None])
    return last, tl.sum(last * sums, 0), tl.sum(last * products, 0)


@triton.jit
def gate_backward_kernel(
    lift_ptr, inner_ptr, gate_ptr, condition_ptr, gamma_ptr, beta_ptr, last_ptr,
    hidden_ptr, norm_ptr, planes_ptr, dlast_ptr, products_ptr,
    more_ptr, dx_ptr, dfeatures_ptr, dplanes_ptr, dnorm_ptr, dweight_ptr, rows,
    C: tl.constexpr, KEPT: tl.constexpr, KEPT_AT: tl.constexpr, MOVED: tl.constexpr,
    IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr, BATCH: tl.constexpr,
    HAS_MORE: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile from the last layer down; weights stay in shared memory.

    Adds to dx, and gives dfeatures and what the gradients of weights need: those of h, u, value and
    gate (4, M, H).

    BATCH     whether the norm took its statistics from these points
    HAS_MORE  whether dfeatures begins with what came from later couplings
    """
    column = tl.arange(0, H)
    gamma = tl.load(gamma_ptr + column)
    beta = tl.load(beta_ptr + column)
    to_shift, dbeta, dgamma = _of_last(
        last_ptr, products_ptr, gamma, beta, dweight_ptr, 0, MOVED, OUT, H
    )
    to_raw, dbeta_raw, dgamma_raw = _of_last(
        last_ptr, products_ptr, gamma, beta, dweight_ptr, 1, MOVED, OUT, H
    )
    dbeta += dbeta_raw
    dgamma += dgamma_raw
    if tl.program_id(0) == 0:
        tl.store(dnorm_ptr + column, dgamma)
        tl.store(dnorm_ptr + H + column, dbeta)

    LOWER: tl.constexpr = 2 * H * H
    condition_value_plus = _turned(condition_ptr, H, DOT)
    condition_value_minus = _turned(condition_ptr + H, H, DOT)
    condition_gate_plus = _turned(condition_ptr + LOWER, H, DOT)
    condition_gate_minus = _turned(condition_ptr + LOWER + H, H, DOT)
    value_plus = _turned(gate_ptr, H, DOT)
    value_minus = _turned(gate_ptr + H, H, DOT)
    gate_plus = _turned(gate_ptr + LOWER, H, DOT)
    gate_minus = _turned(gate_ptr + LOWER + H, H, DOT)
    inner_plus = _turned(inner_ptr, H, DOT)
    inner_minus = _turned(inner_ptr + H, H, DOT)
    channel = tl.arange(0, IN)
    lift_at = column[:, None] * KEPT + channel[None, :]
    lift = tl.load(lift_ptr + lift_at, mask=(channel < KEPT)[None, :], other=0.0).to(DOT)
    to_shift = to_shift.to(DOT)
    to_raw = to_raw.to(DOT)
    grow = tl.load(norm_ptr + H + column)
    out = tl.arange(0, OUT)
    plane = rows.to(tl.int64) * H
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=1):
        row = tile * TILE + tl.arange(0, TILE)
        inside = (row < rows)[:, None]
        is_moved = inside & (out < MOVED)[None, :]
        out_at = row[:, None] * MOVED + out[None, :]
        dshift = tl.load(dlast_ptr + out_at, mask=is_moved, other=0.0)
        draw = tl.load(dlast_ptr + rows.to(tl.int64) * MOVED + out_at, mask=is_moved, other=0.0)
        d = tl.dot(dshift.to(DOT), to_shift, input_precision=INPUT_PRECISION)
        d = tl.dot(draw.to(DOT), to_raw, d, input_precision=INPUT_PRECISION)
        at = row[:, None] * H + column[None, :]
        if BATCH:
            hidden = tl.load(hidden_ptr + at, mask=inside, other=0.0)
            normal = (hidden - tl.load(norm_ptr + column)[None, :]) * grow[None, :]
            d -= (dbeta[None, :] + normal * dgamma[None, :]) / rows
        d *= (grow * gamma)[None, :]

        value = tl.load(planes_ptr + 4 * plane + at, mask=inside, other=0.0).to(tl.float32)
        gate = tl.load(planes_ptr + 5 * plane + at, mask=inside, other=0.0).to(tl.float32)
        gate = _sigmoid(gate)
        dvalue = d * gate
        dgate = (dvalue * value * (1.0 - gate)).to(DOT)
        dvalue = dvalue.to(DOT)
        tl.store(dplanes_ptr + 2 * plane + at, dvalue, mask=inside)
        tl.store(dplanes_ptr + 3 * plane + at, dgate, mask=inside)
        plus = tl.dot(dvalue, condition_value_plus, input_precision=INPUT_PRECISION)
        plus = tl.dot(dgate, condition_gate_plus, plus, input_precision=INPUT_PRECISION)
        minus = tl.dot(dvalue, condition_value_minus, input_precision=INPUT_PRECISION)
        minus = tl.dot(dgate, condition_gate_minus, minus, input_precision=INPUT_PRECISION)
        f = tl.load(planes_ptr + 2 * plane + at, mask=inside, other=0.0).to(tl.float32)
        df = _back(f, plus, minus)
        if HAS_MORE:
            df += tl.load(more_ptr + at, mask=inside, other=0.0)
        tl.store(dfeatures_ptr + at, df, mask=inside)
        plus = tl.dot(dvalue, value_plus, input_precision=INPUT_PRECISION)
        plus = tl.dot(dgate, gate_plus, plus, input_precision=INPUT_PRECISION)
        minus = tl.dot(dvalue, value_minus, input_precision=INPUT_PRECISION)
        minus = tl.dot(dgate, gate_minus, minus, input_precision=INPUT_PRECISION)
        u = tl.load(planes_ptr + plane + at, mask=inside, other=0.0).to(tl.float32)
        du = _back(u, plus, minus).to(DOT)
        tl.store(dplanes_ptr + plane + at, du, mask=inside)
        plus = tl.dot(du, inner_plus, input_precision=INPUT_PRECISION)
        minus = tl.dot(du, inner_minus, input_precision=INPUT_PRECISION)
        h = tl.load(planes_ptr + at, mask=inside, other=0.0).to(tl.float32)
        dh = (d + _back(h, plus, minus)).to(DOT)
        tl.store(dplanes_ptr + at, dh, mask=inside)
        is_kept = inside & (channel < KEPT)[None, :]
        dx = dx_ptr + row[:, None] * C + KEPT_AT + channel[None, :]
        dkept = tl.dot(dh, lift, input_precision=INPUT_PRECISION)
        tl.store(dx, dkept + tl.load(dx, mask=is_kept, other=0.0), mask=is_kept)


@triton.jit
def gate_weights_kernel(
    planes_ptr, dplanes_ptr, sums_ptr, rows, kept,
    IN: tl.constexpr, H: tl.constexpr, SUMS: tl.constexpr, TILE: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """One product of planes for every num_programs-th tile: the gradient of a block of weights.

    Six products: inner, gate (value), gate (gate), condition (value), condition (gate), lift.
    """
    job = tl.program_id(0)
    left_plane = tl.where(job == 0, 0, tl.where(job < 3, 1, tl.where(job < 5, 2, 3)))
    right_plane = tl.where(job == 0, 1, tl.where(job == 5, 0, 2 + (job + 1) % 2))
    plane = rows.to(tl.int64) * H
    left_ptr = planes_ptr + left_plane * plane
    right_ptr = dplanes_ptr + right_plane * plane
    is_lift = job == 5
    column = tl.arange(0, H)
    is_left = column < tl.where(is_lift, IN, H)
    upper = tl.zeros((H, H), tl.float32)
    lower = tl.zeros((H, H), tl.float32)
    bias = tl.zeros((TILE, H), tl.float32)
    for tile in tl.range(tl.program_id(1), tl.cdiv(rows, TILE), tl.num_programs(1)):
        row = tile * TILE + tl.arange(0, TILE)
        inside = (row < rows)[:, None]
        at = row[:, None] * H + column[None, :]
        x = tl.load(left_ptr + at, mask=inside & is_left[None, :], other=0.0).to(tl.float32)
        d = tl.load(right_ptr + at, mask=inside, other=0.0)
        plus, minus = _elus(x)
        plus = tl.where(is_lift, x, plus).to(d.dtype)
        upper = tl.dot(tl.trans(plus), d, upper, input_precision=INPUT_PRECISION)
        lower = tl.dot(tl.trans(minus.to(d.dtype)), d, lower, input_precision=INPUT_PRECISION)
        bias += d.to(tl.float32)
    # inner (H, 2 H) and (H,), gate and condition (2 H, 2 H) and (2 H,) each, lift (H, kept), (H,)
    INNER: tl.constexpr = 2 * H * H + H
    GATE: tl.constexpr = 4 * H * H + 2 * H
    second = (job + 1) % 2
    weight = tl.where(job == 0, 0, INNER + second * 2 * H * H + tl.where(job < 3, 0, GATE))
    weight = tl.where(is_lift, INNER + 2 * GATE, weight)
    stride = tl.where(is_lift, kept, 2 * H)
    biases = tl.where(job == 0, 2 * H * H, INNER + 4 * H * H + second * H)
    biases = tl.where((job == 3) | (job == 4), biases + GATE, biases)
    biases = tl.where(is_lift, INNER + 2 * GATE + H * kept, biases)
    sums = sums_ptr + tl.program_id(1).to(tl.int64) * SUMS
    place = sums + weight + column[None, :] * stride + column[:, None]
    tl.store(place, upper, mask=(column < tl.where(is_lift, kept, H))[:, None])
    tl.store(place + H, lower, mask=(column < tl.where(is_lift, 0, H))[:, None])
    tl.store(sums + biases + column, tl.sum(bias, 0))
