# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Couplings on CUDA, as torch's autograd sees them, and how their kernels are launched."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from pdflow.kernels.coupling_backward_triton import (
    couple_backward_first_kernel,
    couple_backward_last_kernel,
)
from pdflow.kernels.coupling_triton import couple_forward_kernel
from pdflow.kernels.launch_triton import (
    Launch,
    arithmetic,
    programs_for,
    sum_partials,
    tiling,
)

ONES = 16
"""Rows of the smallest product on tensor cores."""


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
        """Constant arguments of the kernels."""
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
        """y (B, N, C) and terms (B, N); arguments are contiguous.

        "bf16" rounds in the backward pass alone: the forward one moves coordinates, and rounds to
        tf32.
        """
        rounding = "tf32" if precision == "bf16" else precision
        y, terms, scale = forward(x, total, features, layers, factor, shape, rounding)
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
    launch: Launch = (64, 4, 2, 1),
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Launch the forward kernel: y, terms and scale (rows, moved channels)."""
    rows = x.shape[0] * x.shape[1]
    is_affine = shape.groups == 2
    y = torch.empty_like(x)
    terms = x.new_empty(x.shape[:2]) if is_affine else None
    scale = x.new_empty(rows, shape.channels - shape.kept) if is_affine else None
    couple_forward_kernel[(programs_for(rows, launch, x.device),)](
        x, features, total, *_four(layers), y, terms, scale, rows, factor,
        H=layers[-2].shape[1], DEEP=features is None, HAS_TOTAL=total is not None,
        **tiling(launch), **shape.constants(),
        **arithmetic(precision),
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
    last: Launch = (64, 4, 2, 1),
    first: Launch = (64, 4, 2, 1),
) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    """Launch the backward kernels, last layers first: gradients of x, features and layers."""
    deep = features is None
    width = layers[-2].shape[1]
    rows = x.shape[0] * x.shape[1]
    sizes = [layer.numel() for layer in layers]
    below = sum(sizes[:-4])
    last_programs = programs_for(rows, last, x.device, shape.groups)
    first_programs = programs_for(rows, first, x.device) if deep else 0
    sums = x.new_empty(max(last_programs, first_programs), sum(sizes))
    dx = torch.empty_like(x)
    if features is None:
        rounded = torch.bfloat16 if precision == "bf16" else x.dtype
        dhidden = x.new_empty(shape.groups, rows, width, dtype=rounded)
    else:
        dhidden = torch.empty_like(features)
    constants: dict[str, object] = {
        **shape.constants(), **arithmetic(precision), "H": width, "SUMS": sum(sizes)
    }  # fmt: skip
    weights = _four(layers)
    couple_backward_last_kernel[(last_programs, shape.groups)](
        x, y, features, scale, dy, dterms, *weights[:7], dx, dhidden, sums, rows, factor,
        *layers[-2].shape[1:], DEEP=deep, HAS_TERMS=dterms is not None, BELOW=below,
        **tiling(last), **constants,
    )  # fmt: skip
    if deep:
        for name in ("OUT", "INVERSE"):
            del constants[name]
        couple_backward_first_kernel[(first_programs,)](
            x, dy, dhidden, *weights[:3], dx, sums, rows, width,
            ONES=ONES, **tiling(first), **constants,
        )  # fmt: skip
    total = sum_partials(sums, below, first_programs, last_programs)
    dlayers = [part.view_as(layer) for part, layer in zip(total.split(sizes), layers, strict=True)]
    return dx, None if deep else dhidden, dlayers


def _four(layers: tuple[Tensor, ...] | list[Tensor]) -> list[Tensor | None]:
    """Weights and biases of four layers; the first three are missing where there is only one."""
    return [None] * (8 - len(layers)) + list(layers)
