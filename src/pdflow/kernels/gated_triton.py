# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Couplings of the augmentation on CUDA: the kernels.

Forward. One kernel goes as far as batch normalisation and leaves the mean and the spread of each
tile, a small one joins these, and a third one normalises and moves the channels.

Backward. The gradients of the last layer, summed over all points, hold all that normalisation needs
to know about the whole batch; one kernel makes these sums, one goes down the rest of the network
with what the forward kept as bf16, and one walks over the points again for all other weights.
"""

from __future__ import annotations

import triton
import triton.language as tl

SPEED = tl.constexpr(3.0)
"""`gated.LOG_SCALE_SPEED`."""


@triton.jit
def _elus(x):
    """elu(x) and elu(-x)."""
    below = tl.exp(-tl.abs(x)) - 1.0
    return tl.where(x > 0, x, below), tl.where(x < 0, -x, below)


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _log_sigmoid(x):
    return tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _mirrored(weight, H: tl.constexpr, DOT: tl.constexpr):
    """A block of W (.., 2 H), turned: its rows are columns."""
    column = tl.arange(0, H)
    return tl.load(weight + column[None, :] * 2 * H + column[:, None]).to(DOT)


@triton.jit
def gate_forward_kernel(
    x_ptr, features_ptr, lift_ptr, lift_bias_ptr, inner_ptr, inner_bias_ptr, gate_ptr,
    gate_bias_ptr, condition_ptr, condition_bias_ptr, hidden_ptr, planes_ptr, tiles_ptr, rows,
    C: tl.constexpr, KEPT: tl.constexpr, KEPT_AT: tl.constexpr, IN: tl.constexpr, H: tl.constexpr,
    KEEP: tl.constexpr, STATISTICS: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile up to the norm's input (M, H); weights stay in shared memory.

    KEEP        leave h, u, f, the kept channels, value and gate (6, M, H) for the backward
    STATISTICS  leave the mean and the sum of squared deviations of each tile (tiles, 2, H)
    """
    column = tl.arange(0, H)
    LOWER: tl.constexpr = 2 * H * H
    condition_value_plus = _mirrored(condition_ptr, H, DOT)
    condition_value_minus = _mirrored(condition_ptr + H, H, DOT)
    condition_gate_plus = _mirrored(condition_ptr + LOWER, H, DOT)
    condition_gate_minus = _mirrored(condition_ptr + LOWER + H, H, DOT)
    value_plus = _mirrored(gate_ptr, H, DOT)
    value_minus = _mirrored(gate_ptr + H, H, DOT)
    gate_plus = _mirrored(gate_ptr + LOWER, H, DOT)
    gate_minus = _mirrored(gate_ptr + LOWER + H, H, DOT)
    inner_plus = _mirrored(inner_ptr, H, DOT)
    inner_minus = _mirrored(inner_ptr + H, H, DOT)
    channel = tl.arange(0, IN)
    lift_at = column[None, :] * KEPT + channel[:, None]
    lift = tl.load(lift_ptr + lift_at, mask=(channel < KEPT)[:, None], other=0.0).to(DOT)
    value_bias = tl.load(gate_bias_ptr + column) + tl.load(condition_bias_ptr + column)
    gate_bias = tl.load(gate_bias_ptr + H + column) + tl.load(condition_bias_ptr + H + column)
    plane = rows.to(tl.int64) * H
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=1):
        row = tile * TILE + tl.arange(0, TILE)
        inside = (row < rows)[:, None]
        at = row[:, None] * H + column[None, :]
        # Features first: fewer numbers are held at a time.
        f = tl.load(features_ptr + at, mask=inside, other=0.0)
        if KEEP:
            tl.store(planes_ptr + 2 * plane + at, f.to(planes_ptr.dtype.element_ty), mask=inside)
        plus, minus = _elus(f)
        plus = plus.to(DOT)
        minus = minus.to(DOT)
        value = tl.dot(plus, condition_value_plus, input_precision=INPUT_PRECISION)
        value = tl.dot(minus, condition_value_minus, value, input_precision=INPUT_PRECISION)
        gate = tl.dot(plus, condition_gate_plus, input_precision=INPUT_PRECISION)
        gate = tl.dot(minus, condition_gate_minus, gate, input_precision=INPUT_PRECISION)
        is_kept = inside & (channel < KEPT)[None, :]
        kept_at = row[:, None] * C + KEPT_AT + channel[None, :]
        kept = tl.load(x_ptr + kept_at, mask=is_kept, other=0.0)
        h = tl.dot(kept.to(DOT), lift, input_precision=INPUT_PRECISION)
        h += tl.load(lift_bias_ptr + column)[None, :]
        plus, minus = _elus(h)
        u = tl.dot(plus.to(DOT), inner_plus, input_precision=INPUT_PRECISION)
        u = tl.dot(minus.to(DOT), inner_minus, u, input_precision=INPUT_PRECISION)
        u += tl.load(inner_bias_ptr + column)[None, :]
        plus, minus = _elus(u)
        plus = plus.to(DOT)
        minus = minus.to(DOT)
        value = tl.dot(plus, value_plus, value, input_precision=INPUT_PRECISION)
        value = tl.dot(minus, value_minus, value, input_precision=INPUT_PRECISION)
        gate = tl.dot(plus, gate_plus, gate, input_precision=INPUT_PRECISION)
        gate = tl.dot(minus, gate_minus, gate, input_precision=INPUT_PRECISION)
        value += value_bias[None, :]
        gate += gate_bias[None, :]
        hidden = h + value * _sigmoid(gate)
        tl.store(hidden_ptr + at, hidden, mask=inside)
        if STATISTICS:
            count = tl.minimum(rows - tile * TILE, TILE).to(tl.float32)
            mean = tl.sum(tl.where(inside, hidden, 0.0), 0) / count
            deviation = tl.where(inside, hidden - mean[None, :], 0.0)
            tl.store(tiles_ptr + tile * 2 * H + column, mean)
            tl.store(tiles_ptr + tile * 2 * H + H + column, tl.sum(deviation * deviation, 0))
        if KEEP:
            KEPT_TYPE: tl.constexpr = planes_ptr.dtype.element_ty
            tl.store(planes_ptr + at, h.to(KEPT_TYPE), mask=inside)
            tl.store(planes_ptr + plane + at, u.to(KEPT_TYPE), mask=inside)
            lift_in = 3 * plane + row[:, None] * H + channel[None, :]
            tl.store(planes_ptr + lift_in, kept.to(KEPT_TYPE), mask=inside)
            tl.store(planes_ptr + 4 * plane + at, value.to(KEPT_TYPE), mask=inside)
            tl.store(planes_ptr + 5 * plane + at, gate.to(KEPT_TYPE), mask=inside)


@triton.jit
def norm_statistics_kernel(
    tiles_ptr, norm_ptr, running_mean_ptr, running_var_ptr, rows, tiles, momentum, eps,
    H: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Mean and 1 / standard deviation (2, H) of all points from those of tiles; running too."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((BLOCK, COLUMNS), tl.float32)
    for start in range(0, tiles, BLOCK):
        tile = start + tl.arange(0, BLOCK)[:, None]
        count = tl.maximum(tl.minimum(rows - tile * TILE, TILE), 0).to(tl.float32)
        at = tile * 2 * H + column[None, :]
        total += count * tl.load(tiles_ptr + at, mask=tile < tiles, other=0.0)
    mean = tl.sum(total, 0) / rows
    total = tl.zeros((BLOCK, COLUMNS), tl.float32)
    for start in range(0, tiles, BLOCK):
        tile = start + tl.arange(0, BLOCK)[:, None]
        count = tl.maximum(tl.minimum(rows - tile * TILE, TILE), 0).to(tl.float32)
        at = tile * 2 * H + column[None, :]
        off = tl.load(tiles_ptr + at, mask=tile < tiles, other=0.0) - mean[None, :]
        total += count * off * off + tl.load(tiles_ptr + at + H, mask=tile < tiles, other=0.0)
    sq_sum = tl.sum(total, 0)
    tl.store(norm_ptr + column, mean)
    tl.store(norm_ptr + H + column, 1.0 / tl.sqrt(sq_sum / rows + eps))
    old = tl.load(running_mean_ptr + column)
    tl.store(running_mean_ptr + column, old + momentum * (mean - old))
    old = tl.load(running_var_ptr + column)
    tl.store(running_var_ptr + column, old + momentum * (sq_sum / (rows - 1) - old))


@triton.jit
def _last(ptr, column, is_column, part: tl.constexpr, H: tl.constexpr):
    """Rows 2 j + part of the last layer's weight (2 M, H), turned."""
    at = (2 * column + part)[None, :] * H + tl.arange(0, H)[:, None]
    return tl.load(ptr + at, mask=is_column[None, :], other=0.0)


@triton.jit
def _pairs(ptr, column, is_column, part: tl.constexpr):
    return tl.load(ptr + 2 * column + part, mask=is_column, other=0.0)[None, :]


@triton.jit
def shift_forward_kernel(
    x_ptr, hidden_ptr, norm_ptr, gamma_ptr, beta_ptr, last_ptr, last_bias_ptr, log_scale_ptr,
    total_ptr, y_ptr, terms_ptr, shifts_ptr, rows,
    C: tl.constexpr, KEPT: tl.constexpr, KEPT_AT: tl.constexpr, MOVED: tl.constexpr,
    MOVED_AT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
    HAS_TOTAL: tl.constexpr, SQUASH: tl.constexpr, KEEP: tl.constexpr, TILE: tl.constexpr,
    DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """TILE points from the norm on. KEEP leaves shift and raw scale (2, M, MOVED)."""
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    is_row = row < rows
    column = tl.arange(0, H)
    out = tl.arange(0, OUT)
    is_out = out < MOVED
    is_moved = is_row[:, None] & is_out[None, :]
    channel = tl.arange(0, IN)
    is_kept = is_row[:, None] & (channel < KEPT)[None, :]
    hidden = tl.load(
        hidden_ptr + row[:, None] * H + column[None, :], mask=is_row[:, None], other=0.0
    )
    grow = tl.load(norm_ptr + H + column) * tl.load(gamma_ptr + column)
    normal = (hidden - tl.load(norm_ptr + column)[None, :]) * grow[None, :]
    normal = (normal + tl.load(beta_ptr + column)[None, :]).to(DOT)
    shift = tl.dot(
        normal, _last(last_ptr, out, is_out, 0, H).to(DOT), input_precision=INPUT_PRECISION
    )
    raw = tl.dot(
        normal, _last(last_ptr, out, is_out, 1, H).to(DOT), input_precision=INPUT_PRECISION
    )
    shift = (shift + _pairs(last_bias_ptr, out, is_out, 0)) * tl.exp(
        _pairs(log_scale_ptr, out, is_out, 0) * SPEED
    )
    raw = (raw + _pairs(last_bias_ptr, out, is_out, 1)) * tl.exp(
        _pairs(log_scale_ptr, out, is_out, 1) * SPEED
    )
    kept_at = row[:, None] * C + KEPT_AT + channel[None, :]
    moved_at = row[:, None] * C + MOVED_AT + out[None, :]
    kept = tl.load(x_ptr + kept_at, mask=is_kept, other=0.0)
    moved = tl.load(x_ptr + moved_at, mask=is_moved, other=0.0)
    moved = (moved + shift) * _sigmoid(raw)
    change = tl.sum(tl.where(is_moved, _log_sigmoid(raw), 0.0), 1)
    if SQUASH:
        both = tl.where(is_kept, _log_sigmoid(kept) + _log_sigmoid(-kept), 0.0)
        change += tl.sum(both, 1)
        both = tl.where(is_moved, _log_sigmoid(moved) + _log_sigmoid(-moved), 0.0)
        change += tl.sum(both, 1)
        kept = _sigmoid(kept)
        moved = _sigmoid(moved)
    if HAS_TOTAL:
        change += tl.load(total_ptr + row, mask=is_row, other=0.0)
    tl.store(terms_ptr + row, change, mask=is_row)
    tl.store(y_ptr + kept_at, kept, mask=is_kept)
    tl.store(y_ptr + moved_at, moved, mask=is_moved)
    if KEEP:
        at = row[:, None] * MOVED + out[None, :]
        tl.store(shifts_ptr + at, shift, mask=is_moved)
        tl.store(shifts_ptr + rows.to(tl.int64) * MOVED + at, raw, mask=is_moved)
