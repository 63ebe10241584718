# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Coupling layers on CUDA: network, shift, scale and log-determinant in one kernel.

A program keeps the weights in shared memory and loops over its tiles of points. It stores hidden
layers only for a backward pass.
"""

from __future__ import annotations

import triton
import triton.language as tl

HALF_PI = tl.constexpr(1.5707963267948966)
LARGEST_HALF = tl.constexpr(65504.0)
"""The largest number in fp16."""


@triton.jit
def matrix(ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A dense matrix (rows, columns), padded with zeros."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < columns)
    return tl.load(ptr + row * columns + column, mask=inside, other=0.0)


@triton.jit
def vector(ptr, count, COUNT: tl.constexpr):
    """A vector (count,), padded with zeros."""
    column = tl.arange(0, COUNT)
    return tl.load(ptr + column, mask=column < count, other=0.0)


@triton.jit
def with_bias(ptr, bias_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A dense matrix (rows, columns) with a bias (columns,) as its last row, padded with zeros."""
    is_bias = (tl.arange(0, ROWS) == rows)[:, None]
    bias = vector(bias_ptr, columns, COLUMNS)[None, :]
    return tl.where(is_bias, bias, matrix(ptr, rows, columns, ROWS, COLUMNS))


@triton.jit
def dense(x, weight, bias, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr):
    """x weight + bias, summed in fp32; x is limited to what its type can hold."""
    x = x.to(DOT)
    if tl.float16 == DOT:
        x = tl.minimum(x, tl.full((1, 1), LARGEST_HALF, DOT))
    return tl.dot(x, weight, input_precision=INPUT_PRECISION) + bias[None, :]


@triton.jit
def columns(start, COUNT: tl.constexpr, C: tl.constexpr, FLIP: tl.constexpr):
    """Places of channels start, start + 1, ...; FLIP counts from the last."""
    column = start + tl.arange(0, COUNT)
    return (C - 1 - column if FLIP else column)[None, :]


@triton.jit
def _atan(x):
    """Arc tangent to 2 ulp: four times a series for a quarter of the angle."""
    size = tl.abs(x)
    steep = size > 1.0
    z = tl.where(steep, 1.0 / tl.maximum(size, 1.0), size)
    z = z / (1.0 + tl.sqrt(1.0 + z * z))
    z = z / (1.0 + tl.sqrt(1.0 + z * z))
    s = z * z
    angle = 4.0 * z * (1.0 + s * (-1 / 3 + s * (1 / 5 + s * (-1 / 7 + s * (1 / 9)))))
    angle = tl.where(steep, HALF_PI - angle, angle)
    return tl.where(x < 0, -angle, angle)


@triton.jit
def _hidden_layers(
    x, w1, w2, w3, b2_ptr, b3_ptr, hidden, first, group, GROUPS: tl.constexpr,
    H: tl.constexpr, KEEP: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """The three layers with a relu; KEEP stores the last two of them.

    x, w1  x has a one after the last channel, and w1 the bias as its last row
    """
    column = tl.arange(0, H)
    h = tl.maximum(tl.dot(x.to(DOT), w1, input_precision=INPUT_PRECISION), 0.0)
    h = tl.maximum(dense(h, w2, tl.load(b2_ptr + column), DOT, INPUT_PRECISION), 0.0)
    if KEEP:
        hidden.store([group, first, 0], h.to(hidden.dtype).reshape(1, TILE, H))
    h = tl.maximum(dense(h, w3, tl.load(b3_ptr + column), DOT, INPUT_PRECISION), 0.0)
    if KEEP:
        hidden.store([GROUPS + group, first, 0], h.to(hidden.dtype).reshape(1, TILE, H))
    return h


@triton.jit
def couple_forward_kernel(
    x_ptr, features_ptr, total_ptr, w1_ptr, b1_ptr, w2_ptr, b2_ptr, w3_ptr, b3_ptr,
    w4_ptr, b4_ptr, y_ptr, terms_ptr, scale_ptr, inputs, hidden, rows, factor,
    C: tl.constexpr, KEPT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
    GROUPS: tl.constexpr, DEEP: tl.constexpr, INVERSE: tl.constexpr, FLIP_IN: tl.constexpr,
    FLIP_OUT: tl.constexpr, HAS_TOTAL: tl.constexpr, SCALE: tl.constexpr, SHIFT: tl.constexpr,
    KEEP: tl.constexpr, EVEN: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr,
    DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile of TILE points.

    DEEP   run four layers on the kept channels; else one on features (G, M, H)
    SCALE  compute the scale (M, moved channels) and the terms
    SHIFT  compute y, with a scale from memory unless SCALE
    KEEP   store the network's inputs as tiles of (1, M, IN), with a one after the last channel, and
           its second and third hidden layer as tiles of (2 G, M, H)
    EVEN   all tiles are full

    Weights v belong to the scale, w to the shift.
    """
    MOVED: tl.constexpr = C - KEPT
    LAST: tl.constexpr = GROUPS - 1
    if SCALE:
        if DEEP:
            v1 = with_bias(w1_ptr, b1_ptr, KEPT, H, IN, H).to(DOT)
            v2 = matrix(w2_ptr, H, H, H, H).to(DOT)
            v3 = matrix(w3_ptr, H, H, H, H).to(DOT)
        v4 = matrix(w4_ptr, H, MOVED, H, OUT).to(DOT)
    if SHIFT:
        if DEEP:
            w1 = with_bias(w1_ptr + LAST * KEPT * H, b1_ptr + LAST * H, KEPT, H, IN, H).to(DOT)
            w2 = matrix(w2_ptr + LAST * H * H, H, H, H, H).to(DOT)
            w3 = matrix(w3_ptr + LAST * H * H, H, H, H, H).to(DOT)
        w4 = matrix(w4_ptr + LAST * H * MOVED, H, MOVED, H, OUT).to(DOT)
    row = tl.arange(0, TILE)
    group_step = rows.to(tl.int64) * H
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=STAGES
    ):
        first = tile * TILE
        is_row = row < (TILE if EVEN else rows - first)
        inside = is_row[:, None]
        is_kept = inside & (tl.arange(0, IN) < KEPT)[None, :]
        is_moved = inside & (tl.arange(0, OUT) < MOVED)[None, :]
        x_row = x_ptr + first * C + row[:, None] * C
        y_row = y_ptr + first * C + row[:, None] * C
        hidden_at = first * H + row[:, None] * H + tl.arange(0, H)[None, :]
        scale_at = first * MOVED + row[:, None] * MOVED + tl.arange(0, OUT)[None, :]
        kept = tl.zeros((TILE, IN), tl.float32)
        moved = tl.zeros((TILE, OUT), tl.float32)
        terms = tl.zeros((TILE,), tl.float32)
        # Always true: without a condition, pipelining would load this in copies of 4 bytes.
        if first < rows:
            kept = tl.load(x_row + columns(0, IN, C, FLIP_IN), mask=is_kept, other=0.0)
            moved = tl.load(x_row + columns(KEPT, OUT, C, FLIP_IN), mask=is_moved, other=0.0)
            if HAS_TOTAL and SCALE:
                terms = tl.load(total_ptr + first + row, mask=is_row, other=0.0)
        seen = tl.where((tl.arange(0, IN) == KEPT)[None, :], 1.0, kept)
        if SCALE:
            if DEEP:
                h = _hidden_layers(
                    seen, v1, v2, v3, b2_ptr, b3_ptr, hidden, first, 0, GROUPS,
                    H, KEEP, TILE, DOT, INPUT_PRECISION,
                )  # fmt: skip
            else:
                h = tl.load(features_ptr + hidden_at, mask=inside, other=0.0)
            out = dense(h, v4, vector(b4_ptr, MOVED, OUT), DOT, INPUT_PRECISION)
            scale = tl.where(is_moved, factor * _atan(out), 0.0)
            terms += tl.sum(scale, 1) if INVERSE else -tl.sum(scale, 1)
            tl.store(terms_ptr + first + row, terms, mask=is_row)
            if KEEP or not SHIFT:
                tl.store(scale_ptr + scale_at, scale, mask=is_moved)
        if SHIFT:
            hidden_at += LAST * group_step
            if DEEP:
                h = _hidden_layers(
                    seen, w1, w2, w3, b2_ptr + LAST * H, b3_ptr + LAST * H,
                    hidden, first, LAST, GROUPS, H, KEEP, TILE, DOT, INPUT_PRECISION,
                )  # fmt: skip
                if KEEP:
                    inputs.store([0, first, 0], seen.to(inputs.dtype).reshape(1, TILE, IN))
            else:
                h = tl.load(features_ptr + hidden_at, mask=inside, other=0.0)
            bias = vector(b4_ptr + LAST * MOVED, MOVED, OUT)
            shift = dense(h, w4, bias, DOT, INPUT_PRECISION)
            if GROUPS == 2:
                if not SCALE:
                    scale = tl.load(scale_ptr + scale_at, mask=is_moved, other=0.0)
                y = moved * tl.exp(scale) + shift if INVERSE else (moved - shift) * tl.exp(-scale)
            else:
                y = moved + shift if INVERSE else moved - shift
            tl.store(y_row + columns(0, IN, C, FLIP_OUT), kept, mask=is_kept)
            tl.store(y_row + columns(KEPT, OUT, C, FLIP_OUT), y, mask=is_moved)
