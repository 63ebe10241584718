# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Couplings of the augmentation on CUDA: the kernels.

Forward. One kernel goes as far as batch normalisation and leaves the mean and the spread of each
tile, a small one joins these, and a third one normalises and moves the channels. Parts of a batch
that have statistics of their own go through the kernels side by side.

Backward. The gradients of the last layer, summed over all points, hold all that normalisation needs
to know about the whole batch; one kernel makes these sums. Another one goes down to the features
and to u with what the forward kept, and a third one to the kept channels; both add up the gradients
of the weights that they pass.
"""

from __future__ import annotations

import triton
import triton.language as tl

SPEED = tl.constexpr(3.0)
"""`gated.LOG_SCALE_SPEED`."""

LOG_TWO_PI = tl.constexpr(1.8378770664093453)


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

    rows        points of a part of the batch; program_id(1) tells which part
    KEEP        leave u, value and gate (3, M, H) for the backward
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
    plane = rows.to(tl.int64) * tl.num_programs(1) * H
    tiles = tl.cdiv(rows, TILE)
    part = tl.program_id(1)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), num_stages=1):
        row = tile * TILE + tl.arange(0, TILE)
        inside = (row < rows)[:, None]
        row += part * rows
        at = row[:, None] * H + column[None, :]
        # Features first: fewer numbers are held at a time.
        f = tl.load(features_ptr + at, mask=inside, other=0.0).to(tl.float32)
        plus, minus = _elus(f)
        plus = plus.to(DOT)
        minus = minus.to(DOT)
        value = tl.dot(plus, condition_value_plus, input_precision=INPUT_PRECISION)
        value = tl.dot(minus, condition_value_minus, value, input_precision=INPUT_PRECISION)
        gate = tl.dot(plus, condition_gate_plus, input_precision=INPUT_PRECISION)
        gate = tl.dot(minus, condition_gate_minus, gate, input_precision=INPUT_PRECISION)
        is_kept = inside & (channel < KEPT)[None, :]
        kept_at = row[:, None] * C + KEPT_AT + channel[None, :]
        kept = tl.load(x_ptr + kept_at, mask=is_kept, other=0.0).to(DOT)
        h = tl.dot(kept, lift, input_precision=INPUT_PRECISION)
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
            tile_ptr = tiles_ptr + (part * tiles + tile) * 2 * H
            tl.store(tile_ptr + column, mean)
            tl.store(tile_ptr + H + column, tl.sum(deviation * deviation, 0))
        if KEEP:
            tl.store(planes_ptr + at, u, mask=inside)
            tl.store(planes_ptr + plane + at, value, mask=inside)
            tl.store(planes_ptr + 2 * plane + at, gate, mask=inside)


@triton.jit
def norm_statistics_kernel(
    tiles_ptr, norm_ptr, running_mean_ptr, running_var_ptr, rows, parts, tiles, momentum, eps,
    H: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Mean and 1 / standard deviation (parts, 2, H) from those of tiles; running ones move."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    running_mean = tl.load(running_mean_ptr + column)
    running_var = tl.load(running_var_ptr + column)
    for _ in range(parts):
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
        running_mean += momentum * (mean - running_mean)
        running_var += momentum * (sq_sum / (rows - 1) - running_var)
        tiles_ptr += tiles * 2 * H
        norm_ptr += 2 * H
    tl.store(running_mean_ptr + column, running_mean)
    tl.store(running_var_ptr + column, running_var)


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
    HAS_TOTAL: tl.constexpr, DRAWN: tl.constexpr, SQUASH: tl.constexpr, KEEP: tl.constexpr,
    TILE: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """TILE points of a part from the norm on. KEEP leaves shift and raw scale (2, M, MOVED)."""
    part = tl.program_id(1)
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    is_row = row < rows
    row += part * rows
    norm_ptr += part * 2 * H
    column = tl.arange(0, H)
    out = tl.arange(0, OUT)
    is_out = out < MOVED
    is_moved = is_row[:, None] & is_out[None, :]
    channel = tl.arange(0, IN)
    is_kept = is_row[:, None] & (channel < KEPT)[None, :]
    hidden = tl.load(
        hidden_ptr + row[:, None] * H + column[None, :], mask=is_row[:, None], other=0.0
    ).to(tl.float32)
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
    change = tl.sum(tl.where(is_moved, _log_sigmoid(raw), 0.0), 1)
    if DRAWN:
        change += 0.5 * (tl.sum(kept * kept, 1) + tl.sum(moved * moved, 1) + C * LOG_TWO_PI)
    moved = (moved + shift) * _sigmoid(raw)
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
        lower = rows.to(tl.int64) * tl.num_programs(1) * MOVED
        tl.store(shifts_ptr + lower + at, raw, mask=is_moved)
