# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Gradients of coupling layers on CUDA, in two kernels.

The first goes back from y through shift and scale and all layers to x, with the hidden layers that
the forward pass has kept, and stores the gradient of what each layer put out. The second makes
gradients of weights and biases from both: every program does one layer of one group for a share
of the points, and `sum_partials` adds shares up in a fixed order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pdflow.kernels.coupling_triton import columns, matrix


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
def _through_layers(
    dout, dkept, w1, w2, w3, w4, hidden_ptr, dhidden_ptr, at, step, inside,
    DEEP: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """From the gradient of a network's output to those of its layers, and of its input on dkept."""
    d = tl.dot(dout, tl.trans(w4), input_precision=INPUT_PRECISION)
    if DEEP:
        h = tl.load(hidden_ptr + at + 2 * step, mask=inside, other=0.0)
        d = tl.where(h > 0, d, 0.0).to(DOT)
        tl.store(dhidden_ptr + at + 2 * step, d, mask=inside)
        d = tl.dot(d, tl.trans(w3), input_precision=INPUT_PRECISION)
        h = tl.load(hidden_ptr + at + step, mask=inside, other=0.0)
        d = tl.where(h > 0, d, 0.0).to(DOT)
        tl.store(dhidden_ptr + at + step, d, mask=inside)
        d = tl.dot(d, tl.trans(w2), input_precision=INPUT_PRECISION)
        h = tl.load(hidden_ptr + at, mask=inside, other=0.0)
        d = tl.where(h > 0, d, 0.0).to(DOT)
        dkept = tl.dot(d, tl.trans(w1), dkept, input_precision=INPUT_PRECISION)
    tl.store(dhidden_ptr + at, d, mask=inside)
    return dkept


@triton.jit
def couple_backward_kernel(
    x_ptr, y_ptr, hidden_ptr, scale_ptr, dy_ptr, dterms_ptr, w1_ptr, w2_ptr, w3_ptr, w4_ptr,
    dx_ptr, dhidden_ptr, dout_ptr, rows, factor,
    C: tl.constexpr, KEPT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
    GROUPS: tl.constexpr, DEEP: tl.constexpr, INVERSE: tl.constexpr, FLIP_IN: tl.constexpr,
    FLIP_OUT: tl.constexpr, HAS_TERMS: tl.constexpr, SCALE: tl.constexpr, SHIFT: tl.constexpr,
    TILE: tl.constexpr, STAGES: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile of TILE points.

    Gives dx, the gradients dhidden (3, G, M, H) of hidden layers before their relu, or (G, M, H)
    of features, and dout (G, M, OUT) of what comes out of the network, padded with zeros. SCALE
    and SHIFT say which networks are done; a shift alone adds to the dx that is there. Weights v
    are the scale's and w the shift's.
    """
    MOVED: tl.constexpr = C - KEPT
    LAST: tl.constexpr = GROUPS - 1
    out = tl.arange(0, OUT)
    if SCALE:
        v4 = matrix(w4_ptr, H, MOVED, H, OUT).to(DOT)
        v1 = v4
        v2 = v4
        v3 = v4
        if DEEP:
            v1 = matrix(w1_ptr, KEPT, H, IN, H).to(DOT)
            v2 = matrix(w2_ptr, H, H, H, H).to(DOT)
            v3 = matrix(w3_ptr, H, H, H, H).to(DOT)
    if SHIFT:
        w4 = matrix(w4_ptr + LAST * H * MOVED, H, MOVED, H, OUT).to(DOT)
        w1 = w4
        w2 = w4
        w3 = w4
        if DEEP:
            w1 = matrix(w1_ptr + LAST * KEPT * H, KEPT, H, IN, H).to(DOT)
            w2 = matrix(w2_ptr + LAST * H * H, H, H, H, H).to(DOT)
            w3 = matrix(w3_ptr + LAST * H * H, H, H, H, H).to(DOT)
    group_rows = rows.to(tl.int64)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=STAGES
    ):
        row = tile * TILE + tl.arange(0, TILE)
        inside = (row < rows)[:, None]
        is_kept = inside & (tl.arange(0, IN) < KEPT)[None, :]
        is_moved = inside & (out < MOVED)[None, :]
        in_row = row[:, None] * C
        y_at = in_row + columns(KEPT, OUT, C, FLIP_OUT)
        moved_at = in_row + columns(KEPT, OUT, C, FLIP_IN)
        hidden_at = row[:, None] * H + tl.arange(0, H)[None, :]
        out_at = row[:, None] * OUT + out[None, :]
        dy = tl.load(dy_ptr + y_at, mask=is_moved, other=0.0)
        kept_at = in_row + columns(0, IN, C, FLIP_IN)
        if SCALE or GROUPS == 1:
            kept_out = in_row + columns(0, IN, C, FLIP_OUT)
            dkept = tl.load(dy_ptr + kept_out, mask=is_kept, other=0.0)
        else:
            dkept = tl.load(dx_ptr + kept_at, mask=is_kept, other=0.0)
        dmoved = dy
        if GROUPS == 2:
            scale_at = row[:, None] * MOVED + out[None, :]
            scale = tl.load(scale_ptr + scale_at, mask=is_moved, other=0.0)
            dmoved = dy * tl.exp(scale if INVERSE else -scale)
        if SCALE:
            if INVERSE:
                dscale = dmoved * tl.load(x_ptr + moved_at, mask=is_moved, other=0.0)
            else:
                dscale = -dy * tl.load(y_ptr + y_at, mask=is_moved, other=0.0)
            if HAS_TERMS:
                dterms = tl.load(dterms_ptr + row, mask=row < rows, other=0.0)[:, None]
                dscale = dscale + dterms if INVERSE else dscale - dterms
            dout = tl.where(is_moved, dscale * factor * _sq_cos(scale / factor), 0.0).to(DOT)
            tl.store(dout_ptr + out_at, dout, mask=inside)
            dkept = _through_layers(
                dout, dkept, v1, v2, v3, v4, hidden_ptr, dhidden_ptr, hidden_at,
                GROUPS * group_rows * H, inside, DEEP, DOT, INPUT_PRECISION,
            )  # fmt: skip
        if SHIFT:
            tl.store(dx_ptr + moved_at, dmoved, mask=is_moved)
            dout = (dy if INVERSE else -dmoved).to(DOT)
            tl.store(dout_ptr + LAST * group_rows * OUT + out_at, dout, mask=inside)
            dkept = _through_layers(
                dout, dkept, w1, w2, w3, w4, hidden_ptr, dhidden_ptr,
                LAST * group_rows * H + hidden_at, GROUPS * group_rows * H, inside,
                DEEP, DOT, INPUT_PRECISION,
            )  # fmt: skip
        tl.store(dx_ptr + kept_at, dkept, mask=is_kept)


@triton.jit
def _weight_gradients(
    inputs_ptr, doutputs_ptr, dw_ptr, db_ptr, rows, inputs, outputs,
    IN: tl.constexpr, OUT: tl.constexpr,
    TILE: tl.constexpr, STAGES: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """inputs^T doutputs and sums over doutputs, for every num_programs(1)-th tile of rows."""
    in_column = tl.arange(0, IN)
    out_column = tl.arange(0, OUT)
    # The wider side comes first: products with less than 64 rows are slower.
    TURNED: tl.constexpr = IN < OUT
    dw = tl.zeros((OUT, IN) if TURNED else (IN, OUT), tl.float32)
    db = tl.zeros((TILE, OUT), tl.float32)
    tiles = tl.cdiv(rows, TILE)
    for tile in tl.range(tl.program_id(1), tiles, tl.num_programs(1), num_stages=STAGES):
        row = tile * TILE + tl.arange(0, TILE)[:, None]
        inside = row < rows
        h = tl.load(inputs_ptr + row * IN + in_column[None, :], mask=inside, other=0.0).to(DOT)
        d = tl.load(doutputs_ptr + row * OUT + out_column[None, :], mask=inside, other=0.0)
        if TURNED:
            dw = tl.dot(tl.trans(d), h, dw, input_precision=INPUT_PRECISION)
        else:
            dw = tl.dot(tl.trans(h), d, dw, input_precision=INPUT_PRECISION)
        db += d
    if TURNED:
        at = in_column[None, :] * outputs + out_column[:, None]
        is_weight = (in_column < inputs)[None, :] & (out_column < outputs)[:, None]
    else:
        at = in_column[:, None] * outputs + out_column[None, :]
        is_weight = (in_column < inputs)[:, None] & (out_column < outputs)[None, :]
    tl.store(dw_ptr + at, dw, mask=is_weight)
    tl.store(db_ptr + out_column, tl.sum(db, 0), mask=out_column < outputs)


@triton.jit
def couple_backward_weights_kernel(
    inputs_ptr, hidden_ptr, dhidden_ptr, dout_ptr, sums_ptr, rows, kept, width, moved,
    IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr, GROUPS: tl.constexpr,
    DEEP: tl.constexpr, SUMS: tl.constexpr,
    TILE: tl.constexpr, STAGES: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Layer program_id(0) // GROUPS of group program_id(0) % GROUPS: one of SUMS sums."""
    layer = tl.program_id(0) // GROUPS
    group = tl.program_id(0) % GROUPS
    step = rows.to(tl.int64) * H
    sums = sums_ptr + tl.program_id(1).to(tl.int64) * SUMS
    if DEEP:
        if layer == 0:
            _weight_gradients(
                inputs_ptr, dhidden_ptr + group * step,
                sums + group * kept * width, sums + GROUPS * kept * width + group * width,
                rows, kept, width, IN, H, TILE, STAGES, DOT, INPUT_PRECISION,
            )  # fmt: skip
        sums += GROUPS * (kept + 1) * width
        if (layer == 1) | (layer == 2):
            below = sums + (layer - 1) * GROUPS * (width + 1) * width
            _weight_gradients(
                hidden_ptr + ((layer - 1) * GROUPS + group) * step,
                dhidden_ptr + (layer * GROUPS + group) * step,
                below + group * width * width, below + GROUPS * width * width + group * width,
                rows, width, width, H, H, TILE, STAGES, DOT, INPUT_PRECISION,
            )  # fmt: skip
        sums += 2 * GROUPS * (width + 1) * width
        hidden_ptr += 2 * GROUPS * step
    if (layer == 3) | (not DEEP):
        _weight_gradients(
            hidden_ptr + group * step, dout_ptr + group * rows.to(tl.int64) * OUT,
            sums + group * width * moved, sums + GROUPS * width * moved + group * moved,
            rows, width, moved, H, OUT, TILE, STAGES, DOT, INPUT_PRECISION,
        )  # fmt: skip
