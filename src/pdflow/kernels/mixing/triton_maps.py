# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Affine maps of all blocks from their LU factors on CUDA: one small kernel each way.

A program computes the map of one block. Inverses use substitution, row by row, in float64.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

WARPS = 8


@triton.jit
def _factors(lu_ptr, signs_ptr, C: tl.constexpr, P: tl.constexpr):
    """L, U, diag U and log |diag U| of a block, padded to P channels with the identity."""
    place = tl.arange(0, P)
    row = place[:, None]
    column = place[None, :]
    packed = tl.load(lu_ptr + row * C + column, mask=(row < C) & (column < C), other=0.0)
    log_pivot = tl.load(lu_ptr + place * (C + 1), mask=place < C, other=0.0)
    pivot = tl.load(signs_ptr + place, mask=place < C, other=1.0) * tl.exp(log_pivot)
    lower = tl.where(row > column, packed, (row == column).to(tl.float32))
    upper = tl.where(row < column, packed, tl.where(row == column, pivot[:, None], 0.0))
    return lower, upper, pivot, log_pivot


@triton.jit
def mixing_forward_kernel(
    lu_ptr, signs_ptr, order_ptr, mu_ptr, sigma_ptr, matrix_ptr, bias_ptr, log_det_ptr, middle_ptr,
    C: tl.constexpr, P: tl.constexpr, INVERSE: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """One block; the inverse also stores (L U)^-1 for the backward."""
    block = tl.program_id(0)
    lu_ptr += block * C * C
    matrix_ptr += block * C * C
    place = tl.arange(0, P)
    is_channel = place < C
    row = place[:, None]
    column = place[None, :]
    inside = (row < C) & (column < C)
    signs_ptr += block * C
    lower, upper, _, log_pivot = _factors(lu_ptr, signs_ptr, C, P)
    order = tl.load(order_ptr + block * C + place, mask=is_channel, other=0).to(tl.int32)
    mu = tl.load(mu_ptr + block * C + order, mask=is_channel, other=0.0)
    sigma = tl.load(sigma_ptr + block * C + order, mask=is_channel, other=0.0)
    tl.store(log_det_ptr + block, tl.sum(log_pivot, 0) - tl.sum(sigma, 0))
    if INVERSE:
        half = tl.zeros((P, P), tl.float64)
        for j in range(C):
            known = tl.load(lu_ptr + j * C + place, mask=place < j, other=0.0).to(tl.float64)
            found = (place == j).to(tl.float64) - tl.sum(known[:, None] * half, 0)
            half = tl.where(row == j, found[None, :], half)
        middle = tl.zeros((P, P), tl.float64)
        for step in range(C):
            j = C - 1 - step
            known = tl.load(lu_ptr + j * C + place, mask=(place > j) & is_channel, other=0.0)
            known = known.to(tl.float64)
            pivot = tl.load(signs_ptr + j) * tl.exp(tl.load(lu_ptr + j * (C + 1)).to(tl.float64))
            found = tl.sum(tl.where(row == j, half, 0.0), 0) - tl.sum(known[:, None] * middle, 0)
            middle = tl.where(row == j, (found / pivot)[None, :], middle)
        middle = middle.to(tl.float32)
        matrix = middle * tl.exp(sigma)[None, :]
        tl.store(matrix_ptr + order[None, :] * C + row, matrix, mask=inside)
        bias = tl.sum(middle * mu[None, :], 1)
        tl.store(bias_ptr + block * C + place, bias, mask=is_channel)
        tl.store(middle_ptr + block * C * C + row * C + column, middle, mask=inside)
    else:
        product = tl.dot(lower, upper, input_precision=INPUT_PRECISION)
        shrink = tl.exp(-sigma)
        tl.store(matrix_ptr + column * C + order[:, None], product * shrink[:, None], mask=inside)
        tl.store(bias_ptr + block * C + order, -mu * shrink, mask=is_channel)


@triton.jit
def mixing_backward_kernel(
    lu_ptr, signs_ptr, order_ptr, mu_ptr, sigma_ptr, matrix_ptr, middle_ptr,
    dmatrix_ptr, dbias_ptr, dlog_det_ptr, dlu_ptr, dmu_ptr, dsigma_ptr,
    C: tl.constexpr, P: tl.constexpr, INVERSE: tl.constexpr, INPUT_PRECISION: tl.constexpr,
):  # fmt: skip
    """One block."""
    block = tl.program_id(0)
    square = block * C * C
    place = tl.arange(0, P)
    is_channel = place < C
    row = place[:, None]
    column = place[None, :]
    inside = (row < C) & (column < C)
    lower, upper, pivot, _ = _factors(lu_ptr + square, signs_ptr + block * C, C, P)
    order = tl.load(order_ptr + block * C + place, mask=is_channel, other=0).to(tl.int32)
    mu = tl.load(mu_ptr + block * C + order, mask=is_channel, other=0.0)
    sigma = tl.load(sigma_ptr + block * C + order, mask=is_channel, other=0.0)
    dlog_det = tl.load(dlog_det_ptr + block)
    if INVERSE:
        growth = tl.exp(sigma)
        middle = tl.load(middle_ptr + square + row * C + column, mask=inside, other=0.0)
        at = order[None, :] * C + row
        dmatrix = tl.load(dmatrix_ptr + square + at, mask=inside, other=0.0)
        dbias = tl.load(dbias_ptr + block * C + place, mask=is_channel, other=0.0)
        dsigma = tl.sum(dmatrix * middle, 0) * growth - dlog_det
        dmu = tl.sum(dbias[:, None] * middle, 0)
        dmiddle = dmatrix * growth[None, :] + dbias[:, None] * mu[None, :]
        transposed = tl.trans(middle)
        dproduct = tl.dot(transposed, dmiddle, input_precision=INPUT_PRECISION)
        dproduct = -tl.dot(dproduct, transposed, input_precision=INPUT_PRECISION)
    else:
        shrink = tl.exp(-sigma)
        at = column * C + order[:, None]
        dmatrix = tl.load(dmatrix_ptr + square + at, mask=inside, other=0.0)
        matrix = tl.load(matrix_ptr + square + at, mask=inside, other=0.0)
        dbias = tl.load(dbias_ptr + block * C + order, mask=is_channel, other=0.0)
        dsigma = dbias * mu * shrink - tl.sum(dmatrix * matrix, 1) - dlog_det
        dmu = -dbias * shrink
        dproduct = dmatrix * shrink[:, None]
    tl.store(dsigma_ptr + block * C + order, dsigma, mask=is_channel)
    tl.store(dmu_ptr + block * C + order, dmu, mask=is_channel)
    dlower = tl.dot(dproduct, tl.trans(upper), input_precision=INPUT_PRECISION)
    dupper = tl.dot(tl.trans(lower), dproduct, input_precision=INPUT_PRECISION)
    dpivot = dupper * pivot[:, None] + dlog_det
    dlu = tl.where(row > column, dlower, tl.where(row < column, dupper, dpivot))
    tl.store(dlu_ptr + square + row * C + column, dlu, mask=inside)


class MixingMaps(torch.autograd.Function):
    """`pdflow.kernels.mixing.mixing_maps` with its fused backward."""

    @staticmethod
    def forward(ctx, lu, mu, sigma, signs, order, inverse, precision):
        """Matrices (L, C, C), biases (L, C), log-determinants (L,); arguments are contiguous."""
        blocks, channels, _ = lu.shape
        matrix, bias, log_det = torch.empty_like(lu), torch.empty_like(mu), lu.new_empty(blocks)
        middle = torch.empty_like(lu) if inverse else None
        ctx.options = {
            "C": channels,
            "P": max(16, triton.next_power_of_2(channels)),
            "INVERSE": inverse,
            "INPUT_PRECISION": "ieee" if precision == "ieee" else "tf32x3",
            "num_warps": WARPS,
        }
        mixing_forward_kernel[(blocks,)](
            lu, signs, order, mu, sigma, matrix, bias, log_det, middle, **ctx.options
        )
        ctx.save_for_backward(lu, signs, order, mu, sigma, matrix, middle)
        return matrix, bias, log_det

    @staticmethod
    def backward(ctx, dmatrix: Tensor, dbias: Tensor, dlog_det: Tensor):
        """Gradients of lu, mu and sigma."""
        lu, _, _, mu, _, _, _ = ctx.saved_tensors
        dlu, dmu, dsigma = torch.empty_like(lu), torch.empty_like(mu), torch.empty_like(mu)
        mixing_backward_kernel[(len(lu),)](
            *ctx.saved_tensors, dmatrix.contiguous(), dbias.contiguous(), dlog_det.contiguous(),
            dlu, dmu, dsigma, **ctx.options,
        )  # fmt: skip
        return dlu, dmu, dsigma, None, None, None, None
