# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Gated couplings on CUDA: norm, last layer, shift and scale, forward and backward.

`triton_gate` says how the kernels work together.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pdflow.kernels.augmentation.triton_gate import sigmoid
from pdflow.kernels.augmentation.weights import LOG_SCALE_SPEED

SPEED = tl.constexpr(LOG_SCALE_SPEED)
LOG_TWO_PI = tl.constexpr(1.8378770664093453)


@triton.jit
def _log_sigmoid(x):
    return tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _last(ptr, column, is_column, part: tl.constexpr, H: tl.constexpr):
    """Rows 2 j + part of the last layer's weight (2 M, H), transposed."""
    at = (2 * column + part)[None, :] * H + tl.arange(0, H)[:, None]
    return tl.load(ptr + at, mask=is_column[None, :], other=0.0)


@triton.jit
def _pairs(ptr, column, is_column, part: tl.constexpr):
    return tl.load(ptr + 2 * column + part, mask=is_column, other=0.0)[None, :]


@triton.jit
def _rows_of(tile, rows, channel, is_out, KEPT: tl.constexpr, TILE: tl.constexpr):
    """Rows of a tile, and masks of rows, of kept and of moved channels that exist."""
    row = tile * TILE + tl.arange(0, TILE)
    is_row = row < rows
    is_moved = is_row[:, None] & is_out[None, :]
    is_kept = is_row[:, None] & (channel < KEPT)[None, :]
    return row, is_row, is_kept, is_moved


@triton.jit
def shift_forward_kernel(
    x_ptr, hidden_ptr, norm_ptr, gamma_ptr, beta_ptr, last_ptr, last_bias_ptr, log_scale_ptr,
    total_ptr, y_ptr, terms_ptr, shifts_ptr, rows,
    C: tl.constexpr, KEPT: tl.constexpr, KEPT_AT: tl.constexpr, MOVED: tl.constexpr,
    MOVED_AT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
    HAS_TOTAL: tl.constexpr, DRAWN: tl.constexpr, SQUASH: tl.constexpr, KEEP: tl.constexpr,
    TILE: tl.constexpr, STAGES: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile, from the norm on; KEEP stores shift, raw scale (2, M, MOVED)."""
    column = tl.arange(0, H)
    out = tl.arange(0, OUT)
    is_out = out < MOVED
    channel = tl.arange(0, IN)
    grow = (tl.load(norm_ptr + H + column) * tl.load(gamma_ptr + column))[None, :]
    offset = tl.load(beta_ptr + column)[None, :] - tl.load(norm_ptr + column)[None, :] * grow
    to_shift = _last(last_ptr, out, is_out, 0, H).to(DOT)
    to_raw = _last(last_ptr, out, is_out, 1, H).to(DOT)
    shift_bias = _pairs(last_bias_ptr, out, is_out, 0)
    raw_bias = _pairs(last_bias_ptr, out, is_out, 1)
    shift_speed = tl.exp(_pairs(log_scale_ptr, out, is_out, 0) * SPEED)
    raw_speed = tl.exp(_pairs(log_scale_ptr, out, is_out, 1) * SPEED)
    programs = tl.num_programs(0)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, TILE), programs, num_stages=STAGES):
        row, is_row, is_kept, is_moved = _rows_of(tile, rows, channel, is_out, KEPT, TILE)
        hidden = tl.load(
            hidden_ptr + row[:, None] * H + column[None, :], mask=is_row[:, None], other=0.0
        ).to(tl.float32)
        normal = (hidden * grow + offset).to(DOT)
        shift = tl.dot(normal, to_shift, input_precision=INPUT_PRECISION)
        raw = tl.dot(normal, to_raw, input_precision=INPUT_PRECISION)
        shift = (shift + shift_bias) * shift_speed
        raw = (raw + raw_bias) * raw_speed
        kept_at = row[:, None] * C + KEPT_AT + channel[None, :]
        moved_at = row[:, None] * C + MOVED_AT + out[None, :]
        kept = tl.load(x_ptr + kept_at, mask=is_kept, other=0.0)
        moved = tl.load(x_ptr + moved_at, mask=is_moved, other=0.0)
        change = tl.sum(tl.where(is_moved, _log_sigmoid(raw), 0.0), 1)
        if DRAWN:
            change += 0.5 * (tl.sum(kept * kept, 1) + tl.sum(moved * moved, 1) + C * LOG_TWO_PI)
        moved = (moved + shift) * sigmoid(raw)
        if SQUASH:
            both = tl.where(is_kept, _log_sigmoid(kept) + _log_sigmoid(-kept), 0.0)
            change += tl.sum(both, 1)
            both = tl.where(is_moved, _log_sigmoid(moved) + _log_sigmoid(-moved), 0.0)
            change += tl.sum(both, 1)
            kept = sigmoid(kept)
            moved = sigmoid(moved)
        if HAS_TOTAL:
            change += tl.load(total_ptr + row, mask=is_row, other=0.0)
        tl.store(terms_ptr + row, change, mask=is_row)
        tl.store(y_ptr + kept_at, kept, mask=is_kept)
        tl.store(y_ptr + moved_at, moved, mask=is_moved)
        if KEEP:
            at = row[:, None] * MOVED + out[None, :]
            tl.store(shifts_ptr + at, shift, mask=is_moved)
            lower = rows.to(tl.int64) * MOVED
            tl.store(shifts_ptr + lower + at, raw, mask=is_moved)


@triton.jit
def shift_backward_kernel(
    x_ptr, y_ptr, hidden_ptr, norm_ptr, log_scale_ptr, shifts_ptr, dy_ptr, dterms_ptr,
    dx_ptr, dlast_ptr, sums_ptr, rows,
    C: tl.constexpr, KEPT: tl.constexpr, KEPT_AT: tl.constexpr, MOVED: tl.constexpr,
    MOVED_AT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
    HAS_TERMS: tl.constexpr, DRAWN: tl.constexpr, SQUASH: tl.constexpr, TILE: tl.constexpr,
    STAGES: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile: gradients of the last layer's output (2, M, MOVED), and sums.

    The sums of a program are (2 MOVED, H) products with the normalised input of the last layer,
    (2 MOVED,) of the gradients, and (2 MOVED,) for the log scale. dx lacks the network's share.
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
    programs = tl.num_programs(0)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, TILE), programs, num_stages=STAGES):
        row, is_row, is_kept, is_moved = _rows_of(tile, rows, channel, is_out, KEPT, TILE)
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
        if DRAWN:
            dkept += dterms * tl.load(x_ptr + kept_at, mask=is_kept, other=0.0)
        tl.store(dx_ptr + kept_at, dkept, mask=is_kept)
        at = row[:, None] * MOVED + out[None, :]
        lower = rows.to(tl.int64) * MOVED
        shift = tl.load(shifts_ptr + at, mask=is_moved, other=0.0).to(tl.float32)
        raw = tl.load(shifts_ptr + lower + at, mask=is_moved, other=0.0).to(tl.float32)
        moved = tl.load(x_ptr + moved_at, mask=is_moved, other=0.0)
        scale = sigmoid(raw)
        dshift = dmoved * scale
        dmoved = dshift + dterms * moved if DRAWN else dshift
        tl.store(dx_ptr + moved_at, dmoved, mask=is_moved)
        draw = (dshift * (moved + shift) + dterms) * (1.0 - scale)
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
        ).to(tl.float32)
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
