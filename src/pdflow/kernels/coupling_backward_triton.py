# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Gradients of coupling layers on CUDA, of points and weights in one kernel.

It goes back from y through shift or scale and all layers to x, with the hidden layers that the
forward pass has kept, and on the way adds the gradients of weights up in registers. These leave as
one sum per program, and `sum_partials` adds them in a fixed order. So nothing but x and features
gets a gradient in memory.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pdflow.kernels.coupling_triton import columns, matrix

ROWS_OF_ONES = tl.constexpr(16)
"""The fewest rows that a product can have; all but one of its results are not needed."""


@triton.jit
def _sq_cos(angle):
    """cos(angle)^2 within a quarter turn, by the series of the cosine."""
    s = angle * angle
    cos = 1.0 + s * (
        -1 / 2
        + s * (1 / 24 + s * (-1 / 720 + s * (1 / 40320 + s * (-1 / 3628800 + s * (1 / 479001600)))))
    )
    return cos * cos


@triton.jit
def _to_weights(
    below, d, dweight, dbias,
    TILE: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Add to gradients of a layer's weight and bias: products of what goes in, and of ones, with d.

    d  the gradient of what comes out
    """
    ones = tl.full((ROWS_OF_ONES, TILE), 1.0, DOT)
    dweight = tl.dot(tl.trans(below), d, dweight, input_precision=INPUT_PRECISION)
    dbias = tl.dot(ones, d, dbias, input_precision=INPUT_PRECISION)
    return dweight, dbias


@triton.jit
def _through_layer(
    d, weight, below, dweight, dbias,
    TILE: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of the layer below, which came out of a relu, with `_to_weights`."""
    dbelow = tl.dot(d, tl.trans(weight), input_precision=INPUT_PRECISION)
    dbelow = tl.where(below > 0, dbelow, 0.0).to(DOT)
    dweight, dbias = _to_weights(below, d, dweight, dbias, TILE, DOT, INPUT_PRECISION)
    return dbelow, dweight, dbias


@triton.jit
def _store(
    sums_ptr, dweight, dbias, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, GROUP: tl.constexpr,
    GROUPS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """Store gradients of one group of weights (G, INPUTS, OUTPUTS) and biases (G, OUTPUTS)."""
    row = tl.arange(0, IN)[:, None]
    column = tl.arange(0, OUT)[None, :]
    weight_ptr = sums_ptr + GROUP * INPUTS * OUTPUTS
    is_weight = (row < INPUTS) & (column < OUTPUTS)
    tl.store(weight_ptr + row * OUTPUTS + column, dweight, mask=is_weight)
    bias_ptr = sums_ptr + GROUPS * INPUTS * OUTPUTS + GROUP * OUTPUTS
    first = tl.arange(0, ROWS_OF_ONES)[:, None] == 0
    tl.store(bias_ptr + first * 0 + column, dbias, mask=first & (column < OUTPUTS))


@triton.jit
def couple_backward_kernel(
    x_ptr, y_ptr, hidden, scale_ptr, dy_ptr, dterms_ptr, w1_ptr, w2_ptr, w3_ptr, w4_ptr,
    dx_ptr, dfeatures, sums_ptr, rows, factor,
    C: tl.constexpr, KEPT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
    GROUPS: tl.constexpr, DEEP: tl.constexpr, INVERSE: tl.constexpr, FLIP_IN: tl.constexpr,
    FLIP_OUT: tl.constexpr, HAS_TERMS: tl.constexpr, SCALE: tl.constexpr, EVEN: tl.constexpr,
    SUMS: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile of TILE points; the network of the SCALE or that of the shift.

    hidden     tiles of (3 G, M, H) hidden layers, or of (G, M, H) features
    dx_ptr     where there is a scale, the shift's network adds to what the scale's has put there
    dfeatures  tiles of (G, M, H), without hidden layers
    sums_ptr   SUMS numbers per program
    EVEN       all tiles are full
    """
    MOVED: tl.constexpr = C - KEPT
    GROUP: tl.constexpr = 0 if SCALE else GROUPS - 1
    out_column = tl.arange(0, OUT)[None, :]
    in_column = tl.arange(0, IN)[None, :]
    w4 = matrix(w4_ptr + GROUP * H * MOVED, H, MOVED, H, OUT).to(DOT)
    dw4 = tl.zeros((H, OUT), tl.float32)
    db4 = tl.zeros((ROWS_OF_ONES, OUT), tl.float32)
    if DEEP:
        w1 = matrix(w1_ptr + GROUP * KEPT * H, KEPT, H, IN, H).to(DOT)
        w2 = matrix(w2_ptr + GROUP * H * H, H, H, H, H).to(DOT)
        w3 = matrix(w3_ptr + GROUP * H * H, H, H, H, H).to(DOT)
        dw1 = tl.zeros((IN, H), tl.float32)
        dw2 = tl.zeros((H, H), tl.float32)
        dw3 = tl.zeros((H, H), tl.float32)
        db2 = tl.zeros((ROWS_OF_ONES, H), tl.float32)
        db3 = tl.zeros((ROWS_OF_ONES, H), tl.float32)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=STAGES
    ):
        first = tile * TILE
        row = first + tl.arange(0, TILE)
        is_row = row < (first + TILE if EVEN else rows)
        is_kept = is_row[:, None] & (in_column < KEPT)
        is_moved = is_row[:, None] & (out_column < MOVED)
        in_row = row[:, None] * C
        y_at = in_row + columns(KEPT, OUT, C, FLIP_OUT)
        moved_at = in_row + columns(KEPT, OUT, C, FLIP_IN)
        kept_at = in_row + columns(0, IN, C, FLIP_IN)
        dy = tl.load(dy_ptr + y_at, mask=is_moved, other=0.0)
        dmoved = dy
        if GROUPS == 2:
            scale_at = row[:, None] * MOVED + out_column
            scale = tl.load(scale_ptr + scale_at, mask=is_moved, other=0.0)
            dmoved = dy * tl.exp(scale if INVERSE else -scale)
        if SCALE:
            if INVERSE:
                dscale = dmoved * tl.load(x_ptr + moved_at, mask=is_moved, other=0.0)
            else:
                dscale = -dy * tl.load(y_ptr + y_at, mask=is_moved, other=0.0)
            if HAS_TERMS:
                dterms = tl.load(dterms_ptr + row, mask=is_row, other=0.0)[:, None]
                dscale = dscale + dterms if INVERSE else dscale - dterms
            d = tl.where(is_moved, dscale * factor * _sq_cos(scale / factor), 0.0).to(DOT)
        else:
            tl.store(dx_ptr + moved_at, dmoved, mask=is_moved)
            d = (dy if INVERSE else -dmoved).to(DOT)
        if DEEP:
            h = hidden.load([2 * GROUPS + GROUP, first, 0]).reshape(TILE, H)
            d, dw4, db4 = _through_layer(d, w4, h, dw4, db4, TILE, DOT, INPUT_PRECISION)
            h = hidden.load([GROUPS + GROUP, first, 0]).reshape(TILE, H)
            d, dw3, db3 = _through_layer(d, w3, h, dw3, db3, TILE, DOT, INPUT_PRECISION)
            h = hidden.load([GROUP, first, 0]).reshape(TILE, H)
            d, dw2, db2 = _through_layer(d, w2, h, dw2, db2, TILE, DOT, INPUT_PRECISION)
            # Behind the kept channels comes a one, whose weights are the biases.
            x = tl.load(x_ptr + kept_at, mask=is_kept, other=0.0)
            x = tl.where(in_column == KEPT, 1.0, x).to(DOT)
            dw1 = tl.dot(tl.trans(x), d, dw1, input_precision=INPUT_PRECISION)
        else:
            h = hidden.load([GROUP, first, 0]).reshape(TILE, H).to(DOT)
            dw4, db4 = _to_weights(h, d, dw4, db4, TILE, DOT, INPUT_PRECISION)
            d = tl.dot(d, tl.trans(w4), input_precision=INPUT_PRECISION)
            dfeatures.store([GROUP, first, 0], d.to(dfeatures.dtype).reshape(1, TILE, H))
        if SCALE or GROUPS == 1:
            kept_out = in_row + columns(0, IN, C, FLIP_OUT)
            dkept = tl.load(dy_ptr + kept_out, mask=is_kept, other=0.0)
        else:
            dkept = tl.load(dx_ptr + kept_at, mask=is_kept, other=0.0)
        if DEEP:
            dkept = tl.dot(d, tl.trans(w1), dkept, input_precision=INPUT_PRECISION)
        tl.store(dx_ptr + kept_at, dkept, mask=is_kept)
    sums_ptr += tl.program_id(0).to(tl.int64) * SUMS
    if DEEP:
        channel = tl.arange(0, IN)[:, None]
        at = tl.where(channel < KEPT, GROUP * KEPT + channel, GROUPS * KEPT + GROUP) * H
        tl.store(sums_ptr + at + tl.arange(0, H)[None, :], dw1, mask=channel <= KEPT)
        sums_ptr += GROUPS * (KEPT + 1) * H
        _store(sums_ptr, dw2, db2, H, H, GROUP, GROUPS, H, H)
        sums_ptr += GROUPS * (H + 1) * H
        _store(sums_ptr, dw3, db3, H, H, GROUP, GROUPS, H, H)
        sums_ptr += GROUPS * (H + 1) * H
    _store(sums_ptr, dw4, db4, H, MOVED, GROUP, GROUPS, H, OUT)
