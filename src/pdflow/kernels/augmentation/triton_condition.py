# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Condition net of the augmentation on CUDA: layers per point, then mean and last layer.

The backward scatters the gradient of the mean by atomic additions, of terms whose sums are exact in
any order (`triton_exact`; not for "ieee"). It recomputes the layers per point instead of keeping
them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pdflow.kernels.augmentation.weights import ConditionWeights
from pdflow.kernels.triton_exact import anchors
from pdflow.kernels.triton_launch import arithmetic, multiprocessors, split_like, sum_partials

TILE = 64
WARPS = 4
WAVES = 2
"""Points of a tile, warps of a program, and programs per multiprocessor of the backward."""


@triton.jit
def _lifted(points_ptr, lift_ptr, lift_bias_ptr, row, is_row, D: tl.constexpr, H: tl.constexpr):
    """The first layer, without rounding positions."""
    column = tl.arange(0, H)
    h = tl.zeros((row.shape[0], H), tl.float32) + tl.load(lift_bias_ptr + column)[None, :]
    for axis in tl.static_range(D):
        x = tl.load(points_ptr + row * D + axis, mask=is_row, other=0.0)
        h += x[:, None] * tl.load(lift_ptr + column * D + axis)[None, :]
    return h


@triton.jit
def _layer(
    x, weight_ptr, bias_ptr, OUT: tl.constexpr, IN: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """x W^T + b for W (OUT, IN)."""
    out = tl.arange(0, OUT)
    turned = tl.load(weight_ptr + out[None, :] * IN + tl.arange(0, IN)[:, None]).to(DOT)
    product = tl.dot(x.to(DOT), turned, input_precision=INPUT_PRECISION)
    return product + tl.load(bias_ptr + out)[None, :]


@triton.jit
def points_forward_kernel(
    points_ptr, lift_ptr, lift_bias_ptr, first_ptr, first_bias_ptr, second_ptr, second_bias_ptr,
    h_ptr, rows, D: tl.constexpr, H: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Layers before the mean, for TILE points: h (M, H)."""
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    is_row = row < rows
    h = _lifted(points_ptr, lift_ptr, lift_bias_ptr, row, is_row, D, H)
    h = tl.maximum(_layer(h, first_ptr, first_bias_ptr, H, H, DOT, INPUT_PRECISION), 0.0)
    h = tl.maximum(_layer(h, second_ptr, second_bias_ptr, H, H, DOT, INPUT_PRECISION), 0.0)
    tl.store(h_ptr + row[:, None] * H + tl.arange(0, H)[None, :], h, mask=is_row[:, None])


@triton.jit
def mean_forward_kernel(
    h_ptr, neighbours_ptr, last_ptr, last_bias_ptr, mean_ptr, features_ptr, rows, points, stride,
    K: tl.constexpr, H: tl.constexpr, F: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """TILE points: mean over the first K of `stride` neighbours (M, H), features (M, F)."""
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    is_row = row < rows
    inside = is_row[:, None]
    column = tl.arange(0, H)[None, :]
    first = row // points * points
    mean = tl.zeros((TILE, H), tl.float32)
    for k in tl.static_range(K):
        neighbour = tl.load(neighbours_ptr + row.to(tl.int64) * stride + k, mask=is_row, other=0)
        at = (first + neighbour.to(tl.int32))[:, None] * H + column
        mean += tl.load(h_ptr + at, mask=inside, other=0.0).to(tl.float32)
    mean = mean / K
    tl.store(mean_ptr + row[:, None] * H + column, mean, mask=inside)
    features = _layer(mean, last_ptr, last_bias_ptr, F, H, DOT, INPUT_PRECISION)
    tl.store(features_ptr + row[:, None] * F + tl.arange(0, F)[None, :], features, mask=inside)


@triton.jit
def mean_backward_kernel(
    dfeatures_ptr, mean_ptr, neighbours_ptr, last_ptr, anchors_ptr, dh_ptr, sums_ptr,
    rows, points, stride,
    K: tl.constexpr, H: tl.constexpr, F: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr,
    INPUT_PRECISION: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile: adds to dh, and leaves sums for the last layer per program."""
    column = tl.arange(0, H)[None, :]
    out = tl.arange(0, F)
    last = tl.load(last_ptr + out[:, None] * H + column).to(DOT)
    dlast = tl.zeros((F, H), tl.float32)
    dbias = tl.zeros((TILE, F), tl.float32)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=1):
        row = tile * TILE + tl.arange(0, TILE)
        is_row = row < rows
        inside = is_row[:, None]
        d = tl.load(dfeatures_ptr + row[:, None] * F + out[None, :], mask=inside, other=0.0)
        d = d.to(tl.float32)
        mean = tl.load(mean_ptr + row[:, None] * H + column, mask=inside, other=0.0)
        dbias += d
        d = d.to(DOT)
        dlast = tl.dot(tl.trans(d), mean.to(DOT), dlast, input_precision=INPUT_PRECISION)
        dmean = tl.dot(d, last, input_precision=INPUT_PRECISION) / K
        if EXACT:
            anchor = tl.load(anchors_ptr + row // points, mask=is_row, other=0.0)[:, None]
            dmean = (dmean + anchor) - anchor
        first = row // points * points
        for k in tl.static_range(K):
            at = neighbours_ptr + row.to(tl.int64) * stride + k
            neighbour = tl.load(at, mask=is_row, other=0).to(tl.int32)
            dh_at = (first + neighbour)[:, None] * H + column
            tl.atomic_add(dh_ptr + dh_at, dmean, mask=inside, sem="relaxed")
    sums = sums_ptr + tl.program_id(0).to(tl.int64) * F * (H + 1)
    tl.store(sums + out[:, None] * H + column, dlast)
    tl.store(sums + F * H + out, tl.sum(dbias, 0))


@triton.jit
def points_backward_kernel(
    points_ptr, lift_ptr, lift_bias_ptr, first_ptr, first_bias_ptr, second_ptr, h_ptr, dh_ptr,
    dpoints_ptr, sums_ptr, rows,
    D: tl.constexpr, PADDED: tl.constexpr, H: tl.constexpr, GRADIENT: tl.constexpr,
    SUMS: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """Every num_programs-th tile.

    GRADIENT  whether points need a gradient
    SUMS      sums of a program: for lift and bias, first and bias, second and bias
    """
    column = tl.arange(0, H)
    square = column[:, None] * H + column[None, :]
    first = tl.load(first_ptr + square).to(DOT)
    second = tl.load(second_ptr + square).to(DOT)
    dfirst = tl.zeros((H, H), tl.float32)
    dsecond = tl.zeros((H, H), tl.float32)
    dlift_bias = tl.zeros((TILE, H), tl.float32)
    dfirst_bias = tl.zeros((TILE, H), tl.float32)
    dsecond_bias = tl.zeros((TILE, H), tl.float32)
    dlift = tl.zeros((H, PADDED), tl.float32)
    axis = tl.arange(0, PADDED)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=1):
        row = tile * TILE + tl.arange(0, TILE)
        is_row = row < rows
        inside = is_row[:, None]
        at = row[:, None] * H + column[None, :]
        h0 = _lifted(points_ptr, lift_ptr, lift_bias_ptr, row, is_row, D, H)
        h1 = _layer(h0, first_ptr, first_bias_ptr, H, H, DOT, INPUT_PRECISION)
        h2 = tl.load(h_ptr + at, mask=inside, other=0.0)
        d = tl.load(dh_ptr + at, mask=inside, other=0.0)
        d = tl.where(h2 > 0, d, 0.0)
        dsecond_bias += d
        d = d.to(DOT)
        relu = tl.maximum(h1, 0.0).to(DOT)
        dsecond = tl.dot(tl.trans(d), relu, dsecond, input_precision=INPUT_PRECISION)
        d = tl.where(h1 > 0, tl.dot(d, second, input_precision=INPUT_PRECISION), 0.0)
        dfirst_bias += d
        d = d.to(DOT)
        dfirst = tl.dot(tl.trans(d), h0.to(DOT), dfirst, input_precision=INPUT_PRECISION)
        d = tl.dot(d, first, input_precision=INPUT_PRECISION)
        dlift_bias += d
        is_axis = inside & (axis < D)[None, :]
        points_at = row[:, None] * D + axis[None, :]
        x = tl.load(points_ptr + points_at, mask=is_axis, other=0.0)
        d = d.to(DOT)
        dlift = tl.dot(tl.trans(d), x.to(DOT), dlift, input_precision=INPUT_PRECISION)
        if GRADIENT:
            lift_at = column[:, None] * D + axis[None, :]
            lift = tl.load(lift_ptr + lift_at, mask=(axis < D)[None, :], other=0.0).to(DOT)
            dx = tl.dot(d, lift, input_precision=INPUT_PRECISION)
            tl.store(dpoints_ptr + points_at, dx, mask=is_axis)
    sums = sums_ptr + tl.program_id(0).to(tl.int64) * SUMS
    tl.store(sums + column[:, None] * D + axis[None, :], dlift, mask=(axis < D)[None, :])
    sums += H * D
    tl.store(sums + column, tl.sum(dlift_bias, 0))
    sums += H
    tl.store(sums + square, dfirst)
    sums += H * H
    tl.store(sums + column, tl.sum(dfirst_bias, 0))
    sums += H
    tl.store(sums + square, dsecond)
    sums += H * H
    tl.store(sums + column, tl.sum(dsecond_bias, 0))


class NeighbourMean(torch.autograd.Function):
    """`pdflow.kernels.augmentation.neighbour_mean` with its fused backward."""

    @staticmethod
    def forward(ctx, points, neighbours, precision, *weights):
        """Features (B, N, F); neighbours (B, N, K) may be the first of a longer list."""
        weights = ConditionWeights(*weights)
        neighbours = _listed(neighbours)
        h, mean, features = forward(points, neighbours, weights, precision)
        ctx.save_for_backward(points, neighbours, h, mean, *weights)
        ctx.precision = precision
        return features

    @staticmethod
    def backward(ctx, dfeatures):
        """Gradients of points and weights."""
        points, neighbours, h, mean, *weights = ctx.saved_tensors
        dpoints, gradients = backward(
            points, neighbours, ConditionWeights(*weights), h, mean, dfeatures.contiguous(),
            ctx.needs_input_grad[0], ctx.precision,
        )  # fmt: skip
        return dpoints, None, None, *gradients


def forward(
    points: Tensor, neighbours: Tensor, weights: ConditionWeights, precision: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Input of the mean and the mean (B, N, H), and features (B, N, F), in bf16 for "bf16"."""
    batch, count, dims = points.shape
    rows, (features, width) = batch * count, weights.last.shape
    grid = (triton.cdiv(rows, TILE),)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    rounding = arithmetic("ieee" if precision == "ieee" else "tf32")
    options = {"TILE": TILE, "num_warps": WARPS, **rounding}
    h, mean = points.new_empty(2, batch, count, width, dtype=dtype)
    result = points.new_empty(batch, count, features, dtype=dtype)
    points_forward_kernel[grid](points, *weights[:6], h, rows, D=dims, H=width, **options)
    mean_forward_kernel[grid](
        h, neighbours, *weights[6:], mean, result, rows, count, neighbours.stride(1),
        K=neighbours.shape[2], H=width, F=features, **options,
    )  # fmt: skip
    return h, mean, result


def backward(
    points: Tensor, neighbours: Tensor, weights: ConditionWeights, h: Tensor, mean: Tensor,
    dfeatures: Tensor, needs_dpoints: bool, precision: str,
) -> tuple[Tensor | None, list[Tensor]]:  # fmt: skip
    """Gradients of points, if needed, and of the weights."""
    batch, count, dims = points.shape
    rows, (features, width) = batch * count, weights.last.shape
    programs = min(triton.cdiv(rows, TILE), WAVES * multiprocessors(points.device))
    options = {
        "TILE": TILE, "num_warps": WARPS, **arithmetic("ieee" if precision == "ieee" else "bf16")
    }  # fmt: skip
    dh = torch.zeros_like(h, dtype=torch.float32)
    last_sums = points.new_empty(programs, features * (width + 1))
    k, exact = neighbours.shape[2], precision != "ieee"
    mean_backward_kernel[(programs,)](
        dfeatures, mean, neighbours, weights.last,
        anchors(dfeatures[None], weights.last.mT[None], 1 / k) if exact else None,
        dh, last_sums, rows, count, neighbours.stride(1),
        K=k, H=width, F=features, EXACT=exact, **options,
    )  # fmt: skip
    size = sum(weight.numel() for weight in weights[:6])
    sums = points.new_empty(programs, size)
    dpoints = torch.empty_like(points) if needs_dpoints else None
    points_backward_kernel[(programs,)](
        points, *weights[:5], h, dh, dpoints, sums, rows, D=dims, PADDED=16, H=width,
        GRADIENT=needs_dpoints, SUMS=size, **options,
    )  # fmt: skip
    of_points = split_like(sum_partials(sums), weights[:6])
    return dpoints, of_points + split_like(sum_partials(last_sums), weights[6:])


def _listed(neighbours: Tensor) -> Tensor:
    """Neighbours with one stride from point to point, over all patches; slices of K stay views."""
    batch, points, _ = neighbours.shape
    in_order = neighbours.stride(2) == 1 and (
        batch == 1 or neighbours.stride(0) == points * neighbours.stride(1)
    )
    return neighbours if in_order else neighbours.contiguous()
