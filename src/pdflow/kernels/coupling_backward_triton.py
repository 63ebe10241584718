# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Gradients of coupling layers on CUDA, in two kernels that share the work by layers.

The first goes back through the shift and scale, the fourth and the third layer; the second
through the second layer and the first. Both walk through tiles of points and compute the hidden
layers again from the input. Gradients of weights stay in registers until the end, which is why
there are two kernels: those of four layers do not fit. They leave as one sum per program, and
`sum_partials` adds those up in a fixed order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pdflow.kernels.coupling_triton import columns, dense, matrix


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
def couple_backward_last_kernel(
    x_ptr, y_ptr, features_ptr, scale_ptr, dy_ptr, dterms_ptr,
    w1_ptr, b1_ptr, w2_ptr, b2_ptr, w3_ptr, b3_ptr, w4_ptr, dx_ptr, dhidden_ptr, sums_ptr,
    rows, factor, width, moved_width,
    C: tl.constexpr, KEPT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
    GROUPS: tl.constexpr, DEEP: tl.constexpr, INVERSE: tl.constexpr, FLIP_IN: tl.constexpr,
    FLIP_OUT: tl.constexpr, HAS_TERMS: tl.constexpr, SUMS: tl.constexpr, BELOW: tl.constexpr,
    TILE: tl.constexpr, STAGES: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs(0)-th tile for group program_id(1).

    Gives the gradients of the moved channels, of what the second layer put out before its relu
    (or of the features) in dhidden (G, M, H), and of the weights from number BELOW of SUMS on.
    """
    MOVED: tl.constexpr = C - KEPT
    group = tl.program_id(1)
    is_scale = (GROUPS == 2) & (group == 0)
    column = tl.arange(0, H)
    out = tl.arange(0, OUT)
    w4 = matrix(w4_ptr + group * H * MOVED, H, MOVED, H, OUT).to(DOT)
    dw4 = tl.zeros((H, OUT), tl.float32)
    db4 = tl.zeros((TILE, OUT), tl.float32)
    if DEEP:
        w1 = matrix(w1_ptr + group * KEPT * H, KEPT, H, IN, H).to(DOT)
        w2 = matrix(w2_ptr + group * H * H, H, H, H, H).to(DOT)
        w3 = matrix(w3_ptr + group * H * H, H, H, H, H).to(DOT)
        dw3 = tl.zeros((H, H), tl.float32)
        db3 = tl.zeros((TILE, H), tl.float32)
    hidden_of_group = group * rows.to(tl.int64) * H
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=STAGES
    ):
        row = tile * TILE + tl.arange(0, TILE)
        inside = (row < rows)[:, None]
        is_moved = inside & (out < MOVED)[None, :]
        in_row = row[:, None] * C
        y_at = in_row + columns(KEPT, OUT, C, FLIP_OUT)
        moved_at = in_row + columns(KEPT, OUT, C, FLIP_IN)
        hidden_at = hidden_of_group + row[:, None] * H + column[None, :]
        dy = tl.load(dy_ptr + y_at, mask=is_moved, other=0.0)
        if GROUPS == 2:
            scale_at = row[:, None] * MOVED + out[None, :]
            scale = tl.load(scale_ptr + scale_at, mask=is_moved, other=0.0)
            dmoved = dy * tl.exp(scale if INVERSE else -scale)
            dterms = tl.zeros((TILE, 1), tl.float32)
            if HAS_TERMS:
                dterms = tl.load(dterms_ptr + row, mask=(row < rows) & is_scale, other=0.0)[:, None]
            if INVERSE:
                moved = tl.load(x_ptr + moved_at, mask=is_moved & is_scale, other=0.0)
                dscale = dmoved * moved + dterms
                dshift = dy
            else:
                y = tl.load(y_ptr + y_at, mask=is_moved & is_scale, other=0.0)
                dscale = -dy * y - dterms
                dshift = -dmoved
            dout = tl.where(is_scale, dscale * factor * _sq_cos(scale / factor), dshift)
        else:
            dmoved = dy
            dout = dy if INVERSE else -dy
        tl.store(dx_ptr + moved_at, dmoved, mask=is_moved & (group == 0))
        dout = tl.where(is_moved, dout, 0.0)
        db4 += dout
        dout = dout.to(DOT)
        is_kept = inside & (tl.arange(0, IN) < KEPT)[None, :]
        kept_at = in_row + columns(0, IN, C, FLIP_IN)
        if DEEP:
            kept = tl.load(x_ptr + kept_at, mask=is_kept, other=0.0)
            b1 = tl.load(b1_ptr + group * H + column)
            h1 = tl.maximum(dense(kept, w1, b1, DOT, INPUT_PRECISION), 0.0)
            b2 = tl.load(b2_ptr + group * H + column)
            h2 = tl.maximum(dense(h1, w2, b2, DOT, INPUT_PRECISION), 0.0).to(DOT)
            b3 = tl.load(b3_ptr + group * H + column)
            h3 = tl.maximum(dense(h2, w3, b3, DOT, INPUT_PRECISION), 0.0).to(DOT)
        else:
            h3 = tl.load(features_ptr + hidden_at, mask=inside, other=0.0).to(DOT)
            is_copied = is_kept & (group == 0)
            kept_out = in_row + columns(0, IN, C, FLIP_OUT)
            dkept = tl.load(dy_ptr + kept_out, mask=is_copied, other=0.0)
            tl.store(dx_ptr + kept_at, dkept, mask=is_copied)
        dw4 = tl.dot(tl.trans(h3), dout, dw4, input_precision=INPUT_PRECISION)
        d = tl.dot(dout, tl.trans(w4), input_precision=INPUT_PRECISION)
        if DEEP:
            d = tl.where(h3 > 0, d, 0.0)
            db3 += d
            d = d.to(DOT)
            dw3 = tl.dot(tl.trans(h2), d, dw3, input_precision=INPUT_PRECISION)
            d = tl.dot(d, tl.trans(w3), input_precision=INPUT_PRECISION)
            d = tl.where(h2 > 0, d, 0.0)
        tl.store(dhidden_ptr + hidden_at, d, mask=inside)

    # Strides that are not constants keep these places out of registers during the loop.
    sums = sums_ptr + tl.program_id(0).to(tl.int64) * SUMS + BELOW
    if DEEP:
        dw3_at = sums + group * H * H + column[:, None] * width + column[None, :]
        tl.store(dw3_at, dw3)
        tl.store(sums + GROUPS * H * H + group * H + column, tl.sum(db3, 0))
        sums += GROUPS * (H * H + H)
    dw4_at = sums + group * H * MOVED + column[:, None] * moved_width + out[None, :]
    tl.store(dw4_at, dw4, mask=(out < MOVED)[None, :])
    db4_at = sums + GROUPS * H * MOVED + group * MOVED + out
    tl.store(db4_at, tl.sum(db4, 0), mask=out < MOVED)


@triton.jit
def couple_backward_first_kernel(
    x_ptr, dy_ptr, dhidden_ptr, w1_ptr, b1_ptr, w2_ptr, dx_ptr, sums_ptr, rows, width,
    C: tl.constexpr, KEPT: tl.constexpr, IN: tl.constexpr, H: tl.constexpr,
    GROUPS: tl.constexpr, FLIP_IN: tl.constexpr, FLIP_OUT: tl.constexpr, SUMS: tl.constexpr,
    TILE: tl.constexpr, STAGES: tl.constexpr, ONES: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile, once per group: gradients of the kept channels and weights.

    Sums over rows are products with matrices (ONES, TILE) that have ones in one row.
    """
    column = tl.arange(0, H)
    kept_column = tl.arange(0, IN)
    line = tl.arange(0, ONES)
    for group in tl.static_range(GROUPS):
        w1 = matrix(w1_ptr + group * KEPT * H, KEPT, H, IN, H).to(DOT)
        w2 = matrix(w2_ptr + group * H * H, H, H, H, H).to(DOT)
        dw1 = tl.zeros((H, IN), tl.float32)
        dw2 = tl.zeros((H, H), tl.float32)
        db = tl.zeros((ONES, H), tl.float32)
        sum_first = tl.broadcast_to((line == 0)[:, None], (ONES, TILE)).to(DOT)
        sum_second = tl.broadcast_to((line == 1)[:, None], (ONES, TILE)).to(DOT)
        hidden_of_group = group * rows.to(tl.int64) * H
        tiles = tl.cdiv(rows, TILE)
        for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), num_stages=STAGES):
            row = tile * TILE + tl.arange(0, TILE)
            inside = (row < rows)[:, None]
            is_kept = inside & (kept_column < KEPT)[None, :]
            in_row = row[:, None] * C
            kept_at = in_row + columns(0, IN, C, FLIP_IN)
            hidden_at = hidden_of_group + row[:, None] * H + column[None, :]
            kept = tl.load(x_ptr + kept_at, mask=is_kept, other=0.0).to(DOT)
            d2 = tl.load(dhidden_ptr + hidden_at, mask=inside, other=0.0).to(DOT)
            b1 = tl.load(b1_ptr + group * H + column)
            h1 = tl.maximum(dense(kept, w1, b1, DOT, INPUT_PRECISION), 0.0).to(DOT)
            dw2 = tl.dot(tl.trans(h1), d2, dw2, input_precision=INPUT_PRECISION)
            db = tl.dot(sum_second, d2, db, input_precision=INPUT_PRECISION)
            d1 = tl.dot(d2, tl.trans(w2), input_precision=INPUT_PRECISION)
            d1 = tl.where(h1 > 0, d1, 0.0).to(DOT)
            dw1 = tl.dot(tl.trans(d1), kept, dw1, input_precision=INPUT_PRECISION)
            db = tl.dot(sum_first, d1, db, input_precision=INPUT_PRECISION)
            dkept = tl.dot(d1, tl.trans(w1), input_precision=INPUT_PRECISION)
            if group == 0:
                kept_out = in_row + columns(0, IN, C, FLIP_OUT)
                dkept += tl.load(dy_ptr + kept_out, mask=is_kept, other=0.0)
            else:
                dkept += tl.load(dx_ptr + kept_at, mask=is_kept, other=0.0)
            tl.store(dx_ptr + kept_at, dkept, mask=is_kept)

        sums = sums_ptr + tl.program_id(0).to(tl.int64) * SUMS
        dw1_at = sums + group * KEPT * H + kept_column[None, :] * width + column[:, None]
        tl.store(dw1_at, dw1, mask=(kept_column < KEPT)[None, :])
        sums += GROUPS * KEPT * H
        db_at = sums + group * H + line[:, None] * GROUPS * (H + H * H) + column[None, :]
        tl.store(db_at, db, mask=(line < 2)[:, None])
        sums += GROUPS * H + group * H * H
        tl.store(sums + column[:, None] * width + column[None, :], dw2)
        # What one thread has stored of dx, another may read.
        tl.debug_barrier()
