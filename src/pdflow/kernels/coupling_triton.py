# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Coupling layers on CUDA: network, shift, scale and log-determinant in one kernel each way.

Forward. A program holds a tile of points; hidden layers never leave it.

Backward. A program walks through its tiles once per group, computes the hidden layers again from
the input and keeps the gradients of the weights in registers. They leave as one sum per program,
and a second kernel adds those up in a fixed order.
"""

from __future__ import annotations

import triton
import triton.language as tl

HALF_PI = tl.constexpr(1.5707963267948966)


@triton.jit
def _atan(x):
    """Arc tangent to 2 ulp: the angle is brought below 1/16 of the circle, then four-folded."""
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
def _sq_cos(angle):
    """cos(angle)^2 within a quarter turn, by the series of the cosine."""
    s = angle * angle
    cos = 1.0 + s * (
        -1 / 2
        + s * (1 / 24 + s * (-1 / 720 + s * (1 / 40320 + s * (-1 / 3628800 + s * (1 / 479001600)))))
    )
    return cos * cos


@triton.jit
def _matrix(ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A dense matrix (rows, columns), padded with zeros."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < columns)
    return tl.load(ptr + row * columns + column, mask=inside, other=0.0)


@triton.jit
def _vector(ptr, count, COUNT: tl.constexpr):
    column = tl.arange(0, COUNT)
    return tl.load(ptr + column, mask=column < count, other=0.0)


@triton.jit
def _dense(x, weight, bias, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr):
    """x weight + bias, summed in fp32."""
    return tl.dot(x.to(DOT), weight, input_precision=INPUT_PRECISION) + bias[None, :]


@triton.jit
def _columns(start, COUNT: tl.constexpr, C: tl.constexpr, FLIP: tl.constexpr):
    """Where channels start, start + 1, ... are, with channels in order or turned around."""
    column = start + tl.arange(0, COUNT)
    return (C - 1 - column if FLIP else column)[None, :]


@triton.jit
def couple_forward_kernel(
    x_ptr, features_ptr, total_ptr, w1_ptr, b1_ptr, w2_ptr, b2_ptr, w3_ptr, b3_ptr,
    w4_ptr, b4_ptr, y_ptr, terms_ptr, scale_ptr, rows, factor,
    C: tl.constexpr, KEPT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
    GROUPS: tl.constexpr, DEEP: tl.constexpr, INVERSE: tl.constexpr, FLIP_IN: tl.constexpr,
    FLIP_OUT: tl.constexpr, HAS_TOTAL: tl.constexpr, KEEP_SCALE: tl.constexpr,
    TILE: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """TILE points. DEEP runs four layers on the kept channels; else one on features (G, M, H)."""
    MOVED: tl.constexpr = C - KEPT
    first = tl.program_id(0).to(tl.int64) * TILE
    row = tl.arange(0, TILE)
    is_row = row < rows - first
    inside = is_row[:, None]
    is_kept = inside & (tl.arange(0, IN) < KEPT)[None, :]
    is_moved = inside & (tl.arange(0, OUT) < MOVED)[None, :]
    x_row = x_ptr + first * C + row[:, None] * C
    y_row = y_ptr + first * C + row[:, None] * C
    kept = tl.load(x_row + _columns(0, IN, C, FLIP_IN), mask=is_kept, other=0.0)
    moved = tl.load(x_row + _columns(KEPT, OUT, C, FLIP_IN), mask=is_moved, other=0.0)
    shift = moved
    scale = moved
    for group in tl.static_range(GROUPS):
        if DEEP:
            h = _dense(
                kept, _matrix(w1_ptr + group * KEPT * H, KEPT, H, IN, H).to(DOT),
                tl.load(b1_ptr + group * H + tl.arange(0, H)), DOT, INPUT_PRECISION,
            )  # fmt: skip
            h = _dense(
                tl.maximum(h, 0.0), _matrix(w2_ptr + group * H * H, H, H, H, H).to(DOT),
                tl.load(b2_ptr + group * H + tl.arange(0, H)), DOT, INPUT_PRECISION,
            )  # fmt: skip
            h = _dense(
                tl.maximum(h, 0.0), _matrix(w3_ptr + group * H * H, H, H, H, H).to(DOT),
                tl.load(b3_ptr + group * H + tl.arange(0, H)), DOT, INPUT_PRECISION,
            )  # fmt: skip
            h = tl.maximum(h, 0.0)
        else:
            tile_features = features_ptr + (group * rows.to(tl.int64) + first) * H
            place = row[:, None] * H + tl.arange(0, H)[None, :]
            h = tl.load(tile_features + place, mask=inside, other=0.0)
        out = _dense(
            h, _matrix(w4_ptr + group * H * MOVED, H, MOVED, H, OUT).to(DOT),
            _vector(b4_ptr + group * MOVED, MOVED, OUT), DOT, INPUT_PRECISION,
        )  # fmt: skip
        if GROUPS == 2 and group == 0:
            scale = factor * _atan(out)
        else:
            shift = out
    if GROUPS == 2:
        scale = tl.where(is_moved, scale, 0.0)
        change = tl.sum(scale, 1)
        y = moved * tl.exp(scale) + shift if INVERSE else (moved - shift) * tl.exp(-scale)
        change = change if INVERSE else -change
        if HAS_TOTAL:
            change += tl.load(total_ptr + first + row, mask=is_row, other=0.0)
        tl.store(terms_ptr + first + row, change, mask=is_row)
        if KEEP_SCALE:
            scale_at = row[:, None] * MOVED + tl.arange(0, OUT)[None, :]
            tl.store(scale_ptr + first * MOVED + scale_at, scale, mask=is_moved)
    else:
        y = moved + shift if INVERSE else moved - shift
    tl.store(y_row + _columns(0, IN, C, FLIP_OUT), kept, mask=is_kept)
    tl.store(y_row + _columns(KEPT, OUT, C, FLIP_OUT), y, mask=is_moved)


@triton.jit
def _gradient_of_output(
    dy, y, moved, scale, dterms, factor,
    group: tl.constexpr, GROUPS: tl.constexpr, INVERSE: tl.constexpr,
):  # fmt: skip
    """Gradients of the network's output of one group, and of the moved channels."""
    dmoved = dy
    dout = dy if INVERSE else -dy
    if GROUPS == 2:
        dmoved = dy * tl.exp(scale if INVERSE else -scale)
        if group == 0:
            dscale = dmoved * moved + dterms if INVERSE else -dy * y - dterms
            dout = dscale * factor * _sq_cos(scale / factor)
        elif not INVERSE:
            dout = -dmoved
    return dout, dmoved


@triton.jit
def _add_to(place, values, is_first, mask):
    """Add to sums in memory, or start them; only this program knows their place."""
    before = tl.load(place, mask=mask & (not is_first), other=0.0)
    tl.store(place, before + values, mask=mask)


@triton.jit
def couple_backward_kernel(
    x_ptr, y_ptr, features_ptr, scale_ptr, dy_ptr, dterms_ptr,
    w1_ptr, b1_ptr, w2_ptr, b2_ptr, w3_ptr, b3_ptr, w4_ptr, dx_ptr, dfeatures_ptr, sums_ptr,
    rows, factor, width, moved_width,
    C: tl.constexpr, KEPT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, H: tl.constexpr,
    GROUPS: tl.constexpr, DEEP: tl.constexpr, INVERSE: tl.constexpr, FLIP_IN: tl.constexpr,
    FLIP_OUT: tl.constexpr, HAS_TERMS: tl.constexpr, SUMS: tl.constexpr,
    TILE: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile, once per group; SUMS numbers per program are left to add up."""
    MOVED: tl.constexpr = C - KEPT
    column = tl.arange(0, H)
    SQUARE: tl.constexpr = GROUPS * H * H
    BELOW: tl.constexpr = GROUPS * (KEPT * H + H + H * H + H + H * H + H) if DEEP else 0
    tiles = tl.cdiv(rows, TILE)
    for group in tl.static_range(GROUPS):
        sums = sums_ptr + tl.program_id(0).to(tl.int64) * SUMS
        dw1_ptr = sums + group * KEPT * H
        db1 = sums + GROUPS * KEPT * H + group * H
        dw2_ptr = sums + GROUPS * (KEPT * H + H) + group * H * H
        db2 = dw2_ptr + SQUARE - group * H * H + group * H
        dw3_ptr = dw2_ptr + SQUARE + GROUPS * H
        db3 = db2 + SQUARE + GROUPS * H
        dw4_ptr = sums + BELOW + group * H * MOVED
        db4 = sums + BELOW + GROUPS * H * MOVED + group * MOVED
        w4 = _matrix(w4_ptr + group * H * MOVED, H, MOVED, H, OUT).to(DOT)
        dw4 = tl.zeros((H, OUT), tl.float32)
        if DEEP:
            w1 = _matrix(w1_ptr + group * KEPT * H, KEPT, H, IN, H).to(DOT)
            w2 = _matrix(w2_ptr + group * H * H, H, H, H, H).to(DOT)
            w3 = _matrix(w3_ptr + group * H * H, H, H, H, H).to(DOT)
            dw1 = tl.zeros((IN, H), tl.float32)
            dw2 = tl.zeros((H, H), tl.float32)
            dw3 = tl.zeros((H, H), tl.float32)
        for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), num_stages=1):
            row = tile * TILE + tl.arange(0, TILE)
            is_first = tile == tl.program_id(0)
            inside = (row < rows)[:, None]
            is_kept = inside & (tl.arange(0, IN) < KEPT)[None, :]
            is_moved = inside & (tl.arange(0, OUT) < MOVED)[None, :]
            in_row = row[:, None] * C
            kept_at = in_row + _columns(0, IN, C, FLIP_IN)
            moved_at = in_row + _columns(KEPT, OUT, C, FLIP_IN)
            y_at = in_row + _columns(KEPT, OUT, C, FLIP_OUT)
            feature_at = row[:, None] * H + column[None, :]
            features_at = group * rows.to(tl.int64) * H
            if DEEP:
                kept = tl.load(x_ptr + kept_at, mask=is_kept, other=0.0).to(DOT)
                b1 = tl.load(b1_ptr + group * H + column)
                h1 = _dense(kept, w1, b1, DOT, INPUT_PRECISION)
                h1 = tl.maximum(h1, 0.0).to(DOT)
                b2 = tl.load(b2_ptr + group * H + column)
                h2 = _dense(h1, w2, b2, DOT, INPUT_PRECISION)
                h2 = tl.maximum(h2, 0.0).to(DOT)
                b3 = tl.load(b3_ptr + group * H + column)
                h3 = _dense(h2, w3, b3, DOT, INPUT_PRECISION)
                h3 = tl.maximum(h3, 0.0).to(DOT)
            else:
                h3 = tl.load(features_ptr + features_at + feature_at, mask=inside, other=0.0).to(
                    DOT
                )

            dy = tl.load(dy_ptr + y_at, mask=is_moved, other=0.0)
            y = dy
            moved = dy
            scale = dy
            dterms = tl.zeros((TILE, 1), tl.float32)
            if GROUPS == 2:
                scale_at = row[:, None] * MOVED + tl.arange(0, OUT)[None, :]
                scale = tl.load(scale_ptr + scale_at, mask=is_moved, other=0.0)
                if group == 0:
                    if INVERSE:
                        moved = tl.load(x_ptr + moved_at, mask=is_moved, other=0.0)
                    else:
                        y = tl.load(y_ptr + y_at, mask=is_moved, other=0.0)
                    if HAS_TERMS:
                        dterms = tl.load(dterms_ptr + row, mask=row < rows, other=0.0)[:, None]
            dout, dmoved = _gradient_of_output(
                dy, y, moved, scale, dterms, factor, group, GROUPS, INVERSE
            )
            if group == 0:
                tl.store(dx_ptr + moved_at, dmoved, mask=is_moved)
            dout = tl.where(is_moved, dout, 0.0)
            _add_to(db4 + tl.arange(0, OUT), tl.sum(dout, 0), is_first, tl.arange(0, OUT) < MOVED)
            dout = dout.to(DOT)
            dw4 = tl.dot(tl.trans(h3), dout, dw4, input_precision=INPUT_PRECISION)
            d = tl.dot(dout, tl.trans(w4), input_precision=INPUT_PRECISION)
            dkept = tl.zeros((TILE, IN), tl.float32)
            if DEEP:
                d = tl.where(h3 > 0, d, 0.0)
                _add_to(db3 + column, tl.sum(d, 0), is_first, column < H)
                d = d.to(DOT)
                dw3 = tl.dot(tl.trans(h2), d, dw3, input_precision=INPUT_PRECISION)
                d = tl.dot(d, tl.trans(w3), input_precision=INPUT_PRECISION)
                d = tl.where(h2 > 0, d, 0.0)
                _add_to(db2 + column, tl.sum(d, 0), is_first, column < H)
                d = d.to(DOT)
                dw2 = tl.dot(tl.trans(h1), d, dw2, input_precision=INPUT_PRECISION)
                d = tl.dot(d, tl.trans(w2), input_precision=INPUT_PRECISION)
                d = tl.where(h1 > 0, d, 0.0)
                _add_to(db1 + column, tl.sum(d, 0), is_first, column < H)
                d = d.to(DOT)
                dw1 = tl.dot(tl.trans(kept), d, dw1, input_precision=INPUT_PRECISION)
                dkept = tl.dot(d, tl.trans(w1), input_precision=INPUT_PRECISION)
            else:
                tl.store(dfeatures_ptr + features_at + feature_at, d, mask=inside)
            if group == 0:
                kept_out = in_row + _columns(0, IN, C, FLIP_OUT)
                dkept += tl.load(dy_ptr + kept_out, mask=is_kept, other=0.0)
            else:
                dkept += tl.load(dx_ptr + kept_at, mask=is_kept, other=0.0)
            if DEEP or group == 0:
                tl.store(dx_ptr + kept_at, dkept, mask=is_kept)

        # Strides that are not constants keep these places out of registers during the loop.
        across = column[None, :]
        down = column[:, None]
        if DEEP:
            kept_row = tl.arange(0, IN)[:, None]
            tl.store(dw1_ptr + kept_row * width + across, dw1, mask=kept_row < KEPT)
            tl.store(dw2_ptr + down * width + across, dw2)
            tl.store(dw3_ptr + down * width + across, dw3)
        out = tl.arange(0, OUT)[None, :]
        tl.store(dw4_ptr + down * moved_width + out, dw4, mask=out < MOVED)
