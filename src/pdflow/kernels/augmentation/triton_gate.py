# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Gated couplings on CUDA: the network up to the norm, and how all kernels work together.

Forward. One kernel runs up to batch normalisation and leaves the mean and the sum of squared
deviations of each tile. A small one joins these statistics (both in this file). A third one
normalises and moves the channels (`triton_shift`).

Backward. Normalisation needs gradients of the last layer, summed over all points; one kernel
computes these sums (`triton_shift`). A second one goes back to the features and to the kept
channels, with the tensors that the forward kept (`triton_gate_backward`). A third one computes the
gradients of the weights from the results of the second (`triton_gate_weights`): in one kernel,
these sums would leave too few registers.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def elus(x):
    """elu(x) and elu(-x); exp(-|x|) - 1 is never above 0, nor below -|x|."""
    below = tl.exp(-tl.abs(x)) - 1.0
    return tl.maximum(x, below), tl.maximum(-x, below)


@triton.jit
def elu_operands(x, DOT: tl.constexpr):
    """elu(x) and elu(-x) as operands of several products."""
    plus, minus = elus(x)
    return plus.to(DOT), minus.to(DOT)


@triton.jit
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _block(weight, H: tl.constexpr, DOT: tl.constexpr, TRANSPOSED: tl.constexpr):
    """A block (H, H) of a weight (.., 2 H)."""
    column = tl.arange(0, H)
    if TRANSPOSED:
        return tl.load(weight + column[None, :] * 2 * H + column[:, None]).to(DOT)
    return tl.load(weight + column[:, None] * 2 * H + column[None, :]).to(DOT)


@triton.jit
def two_blocks(weight, H: tl.constexpr, DOT: tl.constexpr, TRANSPOSED: tl.constexpr):
    """The blocks of a weight (H, 2 H) for elu(x) and for elu(-x).

    TRANSPOSED  for products of the forward; else for those of the backward
    """
    plus = _block(weight, H, DOT, TRANSPOSED)
    return plus, _block(weight + H, H, DOT, TRANSPOSED)


@triton.jit
def four_blocks(weight, H: tl.constexpr, DOT: tl.constexpr, TRANSPOSED: tl.constexpr):
    """Like `two_blocks`, for a weight (2 H, 2 H): those of value, then those of gate."""
    value_plus, value_minus = two_blocks(weight, H, DOT, TRANSPOSED)
    gate_plus, gate_minus = two_blocks(weight + 2 * H * H, H, DOT, TRANSPOSED)
    return value_plus, value_minus, gate_plus, gate_minus


@triton.jit
def gate_forward_kernel(
    x_ptr, features_ptr, lift_ptr, lift_bias_ptr, inner_ptr, inner_bias_ptr, gate_ptr,
    gate_bias_ptr, condition_ptr, condition_bias_ptr, hidden_ptr, planes_ptr, tiles_ptr, rows,
    C: tl.constexpr, KEPT: tl.constexpr, KEPT_AT: tl.constexpr, IN: tl.constexpr, H: tl.constexpr,
    KEEP: tl.constexpr, STATISTICS: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr,
    DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile, up to the norm's input (M, H); weights stay in shared memory.

    KEEP        leave u, value and gate (3, M, H) for the backward
    STATISTICS  leave the mean and the sum of squared deviations of each tile (tiles, 2, H)
    """
    column = tl.arange(0, H)
    condition_value_plus, condition_value_minus, condition_gate_plus, condition_gate_minus = (
        four_blocks(condition_ptr, H, DOT, True)
    )
    value_plus, value_minus, gate_plus, gate_minus = four_blocks(gate_ptr, H, DOT, True)
    inner_plus, inner_minus = two_blocks(inner_ptr, H, DOT, True)
    channel = tl.arange(0, IN)
    lift_at = column[None, :] * KEPT + channel[:, None]
    lift = tl.load(lift_ptr + lift_at, mask=(channel < KEPT)[:, None], other=0.0).to(DOT)
    value_bias = tl.load(gate_bias_ptr + column) + tl.load(condition_bias_ptr + column)
    gate_bias = tl.load(gate_bias_ptr + H + column) + tl.load(condition_bias_ptr + H + column)
    plane = rows.to(tl.int64) * H
    programs = tl.num_programs(0)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, TILE), programs, num_stages=STAGES):
        row = tile * TILE + tl.arange(0, TILE)
        inside = (row < rows)[:, None]
        at = row[:, None] * H + column[None, :]
        # Features first: fewer numbers are live at a time.
        f = tl.load(features_ptr + at, mask=inside, other=0.0).to(tl.float32)
        plus, minus = elu_operands(f, DOT)
        value = tl.dot(plus, condition_value_plus, input_precision=INPUT_PRECISION)
        value = tl.dot(minus, condition_value_minus, value, input_precision=INPUT_PRECISION)
        gate = tl.dot(plus, condition_gate_plus, input_precision=INPUT_PRECISION)
        gate = tl.dot(minus, condition_gate_minus, gate, input_precision=INPUT_PRECISION)
        is_kept = inside & (channel < KEPT)[None, :]
        kept_at = row[:, None] * C + KEPT_AT + channel[None, :]
        kept = tl.load(x_ptr + kept_at, mask=is_kept, other=0.0).to(DOT)
        h = tl.dot(kept, lift, input_precision=INPUT_PRECISION)
        h += tl.load(lift_bias_ptr + column)[None, :]
        plus, minus = elus(h)
        u = tl.dot(plus.to(DOT), inner_plus, input_precision=INPUT_PRECISION)
        u = tl.dot(minus.to(DOT), inner_minus, u, input_precision=INPUT_PRECISION)
        u += tl.load(inner_bias_ptr + column)[None, :]
        plus, minus = elu_operands(u, DOT)
        value = tl.dot(plus, value_plus, value, input_precision=INPUT_PRECISION)
        value = tl.dot(minus, value_minus, value, input_precision=INPUT_PRECISION)
        gate = tl.dot(plus, gate_plus, gate, input_precision=INPUT_PRECISION)
        gate = tl.dot(minus, gate_minus, gate, input_precision=INPUT_PRECISION)
        value += value_bias[None, :]
        gate += gate_bias[None, :]
        hidden = h + value * sigmoid(gate)
        tl.store(hidden_ptr + at, hidden, mask=inside)
        if STATISTICS:
            count = tl.minimum(rows - tile * TILE, TILE).to(tl.float32)
            mean = tl.sum(tl.where(inside, hidden, 0.0), 0) / count
            deviation = tl.where(inside, hidden - mean[None, :], 0.0)
            tile_ptr = tiles_ptr + tile * 2 * H
            tl.store(tile_ptr + column, mean)
            tl.store(tile_ptr + H + column, tl.sum(deviation * deviation, 0))
        if KEEP:
            tl.store(planes_ptr + at, u, mask=inside)
            tl.store(planes_ptr + plane + at, value, mask=inside)
            tl.store(planes_ptr + 2 * plane + at, gate, mask=inside)


@triton.jit
def norm_statistics_kernel(
    tiles_ptr, norm_ptr, running_mean_ptr, running_var_ptr, rows, tiles, momentum, eps,
    H: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Mean and 1 / standard deviation (2, H) from those of tiles; updates the running ones."""
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
    running_mean = tl.load(running_mean_ptr + column)
    running_var = tl.load(running_var_ptr + column)
    running_mean += momentum * (mean - running_mean)
    running_var += momentum * (sq_sum / (rows - 1) - running_var)
    tl.store(running_mean_ptr + column, running_mean)
    tl.store(running_var_ptr + column, running_var)
