# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Couplings on CUDA, as torch's autograd sees them, and how their kernels are launched."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from pdflow.kernels.coupling_triton import couple_backward_kernel, couple_forward_kernel
from pdflow.kernels.launch_triton import arithmetic, multiprocessors, sum_partials


@dataclass(frozen=True)
class Shape:
    """What a coupling's kernels are compiled for: channels, kept channels, groups, direction."""

    channels: int
    kept: int
    groups: int
    inverse: bool
    flip_in: bool
    flip_out: bool

    def constants(self) -> dict[str, object]:
        """Constant arguments that both kernels take."""
        return {
            "C": self.channels,
            "KEPT": self.kept,
            "IN": max(16, triton.next_power_of_2(self.kept)),
            "OUT": max(16, triton.next_power_of_2(self.channels - self.kept)),
            "GROUPS": self.groups,
            "INVERSE": self.inverse,
            "FLIP_IN": self.flip_in,
            "FLIP_OUT": self.flip_out,
        }


class Couple(torch.autograd.Function):
    """`pdflow.kernels.coupling.couple` with its fused backward."""

    @staticmethod
    def forward(ctx, x, total, features, factor, shape, precision, *layers):
        """y (B, N, C) and terms (B, N); arguments are contiguous."""
        needs_scale = shape.groups == 2 and any(ctx.needs_input_grad)
        y, terms, scale = forward(x, total, features, layers, factor, shape, precision, needs_scale)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y, features, scale, *layers)
        ctx.options = factor, shape, precision
        ctx.has_total = total is not None
        return y, terms

    @staticmethod
    def backward(ctx, dy, dterms):
        """Gradients of x, total, features and layers."""
        x, y, features, scale, *layers = ctx.saved_tensors
        dy = torch.zeros_like(y) if dy is None else dy.contiguous()
        dterms = None if dterms is None else dterms.contiguous()
        dx, dfeatures, dlayers = backward(x, y, features, scale, dy, dterms, layers, *ctx.options)
        dtotal = dterms if ctx.has_total else None
        return dx, dtotal, dfeatures, None, None, None, *dlayers


def forward(
    x: Tensor,
    total: Tensor | None,
    features: Tensor | None,
    layers: tuple[Tensor, ...],
    factor: float,
    shape: Shape,
    precision: str,
    keep_scale: bool,
    tile: int = 128,
    warps: int = 8,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Launch the forward kernel: y, terms and scale (rows, moved channels)."""
    rows = x.shape[0] * x.shape[1]
    affine = shape.groups == 2
    y = torch.empty_like(x)
    terms = x.new_empty(x.shape[:2]) if affine else None
    scale = x.new_empty(rows, shape.channels - shape.kept) if keep_scale else None
    constants = shape.constants()
    width = layers[-2].shape[1]
    couple_forward_kernel[(triton.cdiv(rows, tile),)](
        x, features, total, *_four(layers), y, terms, scale, rows, factor,
        H=width, DEEP=features is None, HAS_TOTAL=total is not None, KEEP_SCALE=keep_scale,
        TILE=tile, num_warps=warps, **constants, **arithmetic(precision),
    )  # fmt: skip
    return y, terms, scale


def backward(
    x: Tensor,
    y: Tensor,
    features: Tensor | None,
    scale: Tensor | None,
    dy: Tensor,
    dterms: Tensor | None,
    layers: list[Tensor],
    factor: float,
    shape: Shape,
    precision: str,
    tile: int = 64,
    warps: int = 8,
    waves: int = 1,
) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    """Launch the backward kernel: gradients of x, features and layers."""
    rows = x.shape[0] * x.shape[1]
    programs = min(triton.cdiv(rows, tile), waves * multiprocessors(x.device))
    numbers = sum(layer.numel() for layer in layers)
    sums = x.new_empty(programs, numbers)
    dx = torch.empty_like(x)
    dfeatures = None if features is None else torch.empty_like(features)
    couple_backward_kernel[(programs,)](
        x, y, features, scale, dy, dterms, *_four(layers)[:7], dx, dfeatures, sums, rows, factor,
        *layers[-2].shape[1:], H=layers[-2].shape[1], DEEP=features is None,
        HAS_TERMS=dterms is not None, SUMS=numbers,
        TILE=tile, num_warps=warps, **shape.constants(), **arithmetic(precision),
    )  # fmt: skip
    total = sum_partials(sums)
    parts = total.split([layer.numel() for layer in layers])
    dlayers = [part.view_as(layer) for part, layer in zip(parts, layers, strict=True)]
    return dx, dfeatures, dlayers


def _four(layers: tuple[Tensor, ...] | list[Tensor]) -> list[Tensor | None]:
    """Weights and biases of four layers; the first three are missing where there is only one."""
    return [None] * (8 - len(layers)) + list(layers)
