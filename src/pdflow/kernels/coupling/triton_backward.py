# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Gradients of coupling layers on CUDA, in two kernels.

The first goes back from y through shift and scale. It gives the gradient of the network's output,
and that of x without the network's share. The second goes back through the network, with the
hidden layers that the forward pass kept. It adds the network's share to the gradient of x, and sums
the gradients of weights in registers. Each program leaves one sum, and `sum_partials` adds these in
a fixed order.

The second kernel reads nothing but tiles that Hopper's copy engine loads during the work on the
tile before. Channels of points are not such tiles, because their rows are not multiples of 16
bytes; hence the first kernel.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pdflow.kernels.coupling.triton_forward import columns, matrix, with_bias

ROWS_OF_ONES = tl.constexpr(16)
"""The fewest rows that a product can have; only one of its results is needed."""


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
def couple_backward_outputs_kernel(
    x_ptr, y_ptr, scale_ptr, dy_ptr, dterms_ptr, dx_ptr, dout_ptr, rows, factor,
    C: tl.constexpr, KEPT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
    GROUPS: tl.constexpr, INVERSE: tl.constexpr, FLIP_IN: tl.constexpr, FLIP_OUT: tl.constexpr,
    HAS_TERMS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """TILE points: dx without the network's share, and dout (G, M, OUT)."""
    MOVED: tl.constexpr = C - KEPT
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = (row < rows)[:, None]
    out = tl.arange(0, OUT)[None, :]
    is_moved = inside & (out < MOVED)
    is_kept = inside & (tl.arange(0, IN)[None, :] < KEPT)
    in_row = row[:, None] * C
    y_at = in_row + columns(KEPT, OUT, C, FLIP_OUT)
    moved_at = in_row + columns(KEPT, OUT, C, FLIP_IN)
    out_at = row[:, None] * OUT + out
    dkept = tl.load(dy_ptr + in_row + columns(0, IN, C, FLIP_OUT), mask=is_kept, other=0.0)
    tl.store(dx_ptr + in_row + columns(0, IN, C, FLIP_IN), dkept, mask=is_kept)
    dy = tl.load(dy_ptr + y_at, mask=is_moved, other=0.0)
    dmoved = dy
    if GROUPS == 2:
        scale = tl.load(scale_ptr + row[:, None] * MOVED + out, mask=is_moved, other=0.0)
        dmoved = dy * tl.exp(scale if INVERSE else -scale)
        if INVERSE:
            dscale = dmoved * tl.load(x_ptr + moved_at, mask=is_moved, other=0.0)
        else:
            dscale = -dy * tl.load(y_ptr + y_at, mask=is_moved, other=0.0)
        if HAS_TERMS:
            dterms = tl.load(dterms_ptr + row, mask=row < rows, other=0.0)[:, None]
            dscale = dscale + dterms if INVERSE else dscale - dterms
        dout = tl.where(is_moved, dscale * factor * _sq_cos(scale / factor), 0.0)
        tl.store(dout_ptr + out_at, dout, mask=inside)
        dout_ptr += rows.to(tl.int64) * OUT
    tl.store(dx_ptr + moved_at, dmoved, mask=is_moved)
    tl.store(dout_ptr + out_at, dy if INVERSE else -dmoved, mask=inside)


@triton.jit
def _to_weights(
    below, d, dweight, dbias,
    TILE: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Add products of the layer's input, and of ones, with d to gradients of weight and bias.

    d  the gradient of the layer's output
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
    """The gradient of the layer's input, which came out of a relu; and `_to_weights`."""
    dbelow = tl.dot(d, tl.trans(weight), input_precision=INPUT_PRECISION)
    dbelow = tl.where(below > 0, dbelow, 0.0).to(DOT)
    dweight, dbias = _to_weights(below, d, dweight, dbias, TILE, DOT, INPUT_PRECISION)
    return dbelow, dweight, dbias


@triton.jit
def _store(
    sums_ptr, dweight, dbias, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, group,
    GROUPS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """Store gradients of one group of weights (G, INPUTS, OUTPUTS) and biases (G, OUTPUTS)."""
    row = tl.arange(0, IN)[:, None]
    column = tl.arange(0, OUT)[None, :]
    weight_ptr = sums_ptr + group * INPUTS * OUTPUTS
    is_weight = (row < INPUTS) & (column < OUTPUTS)
    tl.store(weight_ptr + row * OUTPUTS + column, dweight, mask=is_weight)
    bias_ptr = sums_ptr + GROUPS * INPUTS * OUTPUTS + group * OUTPUTS
    first = tl.arange(0, ROWS_OF_ONES)[:, None] == 0
    tl.store(bias_ptr + first * 0 + column, dbias, mask=first & (column < OUTPUTS))


@triton.jit
def couple_backward_layers_kernel(
    dout, hidden, inputs, w1_ptr, b1_ptr, w2_ptr, w3_ptr, w4_ptr, dx_ptr, sums_ptr, rows,
    C: tl.constexpr, KEPT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
    GROUPS: tl.constexpr, GROUP: tl.constexpr, FLIP_IN: tl.constexpr, EVEN: tl.constexpr,
    SUMS: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile of TILE points, through the four layers of one group.

    dout      tiles of (G, M, OUT)
    hidden    tiles of (2 G, M, H): the second and the third hidden layer; the first is recomputed
    inputs    tiles of (1, M, IN): kept channels, then a one, whose weights are the biases; rounded
              as in the forward pass, or other points would pass the relu
    dx_ptr    the kernel adds to it
    sums_ptr  SUMS numbers per program
    EVEN      all tiles are full
    """
    MOVED: tl.constexpr = C - KEPT
    first_layer = with_bias(w1_ptr + GROUP * KEPT * H, b1_ptr + GROUP * H, KEPT, H, IN, H)
    w1 = first_layer.to(DOT)
    first_layer = first_layer.to(inputs.dtype)
    w2 = matrix(w2_ptr + GROUP * H * H, H, H, H, H).to(DOT)
    w3 = matrix(w3_ptr + GROUP * H * H, H, H, H, H).to(DOT)
    w4 = matrix(w4_ptr + GROUP * H * MOVED, H, MOVED, H, OUT).to(DOT)
    dw1 = tl.zeros((IN, H), tl.float32)
    dw2 = tl.zeros((H, H), tl.float32)
    dw3 = tl.zeros((H, H), tl.float32)
    dw4 = tl.zeros((H, OUT), tl.float32)
    db2 = tl.zeros((ROWS_OF_ONES, H), tl.float32)
    db3 = tl.zeros((ROWS_OF_ONES, H), tl.float32)
    db4 = tl.zeros((ROWS_OF_ONES, OUT), tl.float32)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=STAGES
    ):
        first = tile * TILE
        d = dout.load([GROUP, first, 0]).reshape(TILE, OUT)
        h = hidden.load([GROUPS + GROUP, first, 0]).reshape(TILE, H)
        d, dw4, db4 = _through_layer(d, w4, h, dw4, db4, TILE, DOT, INPUT_PRECISION)
        h = hidden.load([GROUP, first, 0]).reshape(TILE, H)
        d, dw3, db3 = _through_layer(d, w3, h, dw3, db3, TILE, DOT, INPUT_PRECISION)
        x = inputs.load([0, first, 0]).reshape(TILE, IN)
        h = tl.maximum(tl.dot(x, first_layer, input_precision=INPUT_PRECISION), 0.0).to(DOT)
        d, dw2, db2 = _through_layer(d, w2, h, dw2, db2, TILE, DOT, INPUT_PRECISION)
        dw1 = tl.dot(tl.trans(x.to(DOT)), d, dw1, input_precision=INPUT_PRECISION)
        dkept = tl.dot(d, tl.trans(w1), input_precision=INPUT_PRECISION)
        row = first + tl.arange(0, TILE)[:, None]
        is_kept = (row < (first + TILE if EVEN else rows)) & (tl.arange(0, IN) < KEPT)[None, :]
        # No other program adds to these rows, so the order is fixed; it only saves loading dx.
        tl.atomic_add(
            dx_ptr + row * C + columns(0, IN, C, FLIP_IN), dkept, mask=is_kept, sem="relaxed"
        )
    sums_ptr += tl.program_id(0).to(tl.int64) * SUMS
    channel = tl.arange(0, IN)[:, None]
    at = tl.where(channel < KEPT, GROUP * KEPT + channel, GROUPS * KEPT + GROUP) * H
    tl.store(sums_ptr + at + tl.arange(0, H)[None, :], dw1, mask=channel <= KEPT)
    sums_ptr += GROUPS * (KEPT + 1) * H
    _store(sums_ptr, dw2, db2, H, H, GROUP, GROUPS, H, H)
    sums_ptr += GROUPS * (H + 1) * H
    _store(sums_ptr, dw3, db3, H, H, GROUP, GROUPS, H, H)
    sums_ptr += GROUPS * (H + 1) * H
    _store(sums_ptr, dw4, db4, H, MOVED, GROUP, GROUPS, H, OUT)


@triton.jit
def couple_backward_layer_kernel(
    dout, features, weight_ptr, dfeatures, sums_ptr, rows,
    C: tl.constexpr, KEPT: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
    GROUPS: tl.constexpr, SUMS: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr,
    DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Like `couple_backward_layers_kernel` for networks of one layer; group program_id(1).

    features, dfeatures  tiles of (G, M, H)
    """
    MOVED: tl.constexpr = C - KEPT
    group = tl.program_id(1)
    weight = matrix(weight_ptr + group * H * MOVED, H, MOVED, H, OUT).to(DOT)
    dweight = tl.zeros((H, OUT), tl.float32)
    dbias = tl.zeros((ROWS_OF_ONES, OUT), tl.float32)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=STAGES
    ):
        first = tile * TILE
        d = dout.load([group, first, 0]).reshape(TILE, OUT)
        h = features.load([group, first, 0]).reshape(TILE, H).to(DOT)
        dweight, dbias = _to_weights(h, d, dweight, dbias, TILE, DOT, INPUT_PRECISION)
        dh = tl.dot(d, tl.trans(weight), input_precision=INPUT_PRECISION)
        dfeatures.store([group, first, 0], dh.to(dfeatures.dtype).reshape(1, TILE, H))
    sums_ptr += tl.program_id(0).to(tl.int64) * SUMS
    _store(sums_ptr, dweight, dbias, H, MOVED, group, GROUPS, H, OUT)
