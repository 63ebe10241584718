# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Couplings on CUDA, as torch's autograd sees them, and how their kernels are launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from pdflow.kernels.coupling_backward_triton import couple_backward_kernel
from pdflow.kernels.coupling_triton import couple_forward_kernel
from pdflow.kernels.launch_triton import (
    Launch,
    arithmetic,
    programs_for,
    shared_memory,
    sum_partials,
    tiling,
)

ROOMY = 150 * 1024
"""Bytes of shared memory for which a program can hold the weights of scale and shift in tf32."""


@dataclass(frozen=True)
class Shape:
    """What a coupling's kernels are compiled for: channels, kept channels, groups, direction."""

    channels: int
    kept: int
    groups: int
    inverse: bool
    flip_in: bool
    flip_out: bool

    def constants(self) -> dict[str, Any]:
        """Constant arguments of the kernels."""
        return {
            "C": self.channels,
            "KEPT": self.kept,
            "IN": max(16, triton.next_power_of_2(self.kept + 1)),
            "OUT": max(16, triton.next_power_of_2(self.channels - self.kept)),
            "GROUPS": self.groups,
            "INVERSE": self.inverse,
            "FLIP_IN": self.flip_in,
            "FLIP_OUT": self.flip_out,
        }


@dataclass(frozen=True)
class Kept:
    """What the forward pass keeps for the backward pass; hidden layers only where there are any.

    scale   (M, moved channels) of an affine coupling
    hidden  (3 G, M, H) the network's hidden layers after the relu, layer by layer
    """

    scale: Tensor | None
    hidden: Tensor | None


class Couple(torch.autograd.Function):
    """`pdflow.kernels.coupling.couple` with its fused backward."""

    @staticmethod
    def forward(ctx, x, total, features, factor, shape, precision, *layers):
        """y (B, N, C) and terms (B, N); arguments are contiguous."""
        y, terms, kept = forward(x, total, features, layers, factor, shape, precision)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y, features, kept.scale, kept.hidden, *layers)
        ctx.options = factor, shape, precision
        ctx.has_total = total is not None
        return y, terms

    @staticmethod
    def backward(ctx, dy, dterms):
        """Gradients of x, total, features and layers."""
        x, y, features, scale, hidden, *layers = ctx.saved_tensors
        dy = torch.zeros_like(y) if dy is None else dy.contiguous()
        dterms = None if dterms is None else dterms.contiguous()
        kept = Kept(scale, hidden)
        dx, dfeatures, dlayers = backward(x, y, features, kept, dy, dterms, layers, *ctx.options)
        dtotal = dterms if ctx.has_total else None
        return dx, dtotal, dfeatures, None, None, None, *dlayers


def forward(
    x: Tensor,
    total: Tensor | None,
    features: Tensor | None,
    layers: Sequence[Tensor],
    factor: float,
    shape: Shape,
    precision: str,
    keep: bool = True,
    launch: Launch | None = None,
) -> tuple[Tensor, Tensor | None, Kept]:
    """Launch the forward kernel: y, terms, and what the backward pass needs if `keep` says so.

    The forward pass moves coordinates, so "bf16" means fp16 here, which has the digits of tf32;
    what is kept is rounded.
    """
    rows = x.shape[0] * x.shape[1]
    deep = features is None
    launch = launch or ((64, 4, 2, 1) if deep and precision != "bf16" else (64, 4, 4, 1))
    width = layers[-2].shape[1]
    is_affine = shape.groups == 2
    y = torch.empty_like(x)
    terms = x.new_empty(x.shape[:2]) if is_affine else None
    parts = _parts(shape, x.device)
    scale = hidden = None
    if is_affine and (keep or len(parts) == 2):
        scale = x.new_empty(rows, shape.channels - shape.kept)
    if keep and deep:
        rounded = torch.bfloat16 if precision == "bf16" else torch.float32
        hidden = x.new_empty(3 * shape.groups, rows, width, dtype=rounded)
    for part in parts:
        couple_forward_kernel[(programs_for(rows, launch, x.device),)](
            x, features, total, *_four(layers), y, terms, scale, _tiles(hidden, launch), rows,
            factor, H=width, DEEP=deep, HAS_TOTAL=total is not None, KEEP=keep,
            EVEN=rows % launch[0] == 0, **part, **tiling(launch), **shape.constants(),
            **(arithmetic(precision) | ({"DOT": tl.float16} if precision == "bf16" else {})),
        )  # fmt: skip
    return y, terms, Kept(scale, hidden)


def backward(
    x: Tensor,
    y: Tensor,
    features: Tensor | None,
    kept: Kept,
    dy: Tensor,
    dterms: Tensor | None,
    layers: Sequence[Tensor],
    factor: float,
    shape: Shape,
    precision: str,
    launch: Launch | None = None,
) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    """Launch the backward kernel, for scale and shift one after the other: gradients of x,
    features and layers."""
    rows = x.shape[0] * x.shape[1]
    deep = features is None
    launch = launch or _backward_launch(deep, precision, x.device)
    width = layers[-2].shape[1]
    hidden = kept.hidden if features is None else features
    dx = torch.empty_like(x)
    dfeatures = None if features is None else torch.empty_like(features)
    programs = programs_for(rows, launch, x.device)
    sizes = [layer.numel() for layer in layers]
    sums = x.new_empty(programs, sum(sizes))
    for is_scale in [True, False][-shape.groups :]:
        couple_backward_kernel[(programs,)](
            x, y, _tiles(hidden, launch), kept.scale, dy, dterms, *_four(layers)[::2], dx,
            _tiles(dfeatures, launch), sums, rows, factor, H=width, DEEP=deep, SCALE=is_scale,
            HAS_TERMS=dterms is not None, EVEN=rows % launch[0] == 0, SUMS=sum(sizes),
            **tiling(launch), **shape.constants(), **arithmetic(precision),
        )  # fmt: skip
    parts = sum_partials(sums).split(sizes)
    dlayers = [part.view_as(layer) for part, layer in zip(parts, layers, strict=True)]
    return dx, dfeatures, dlayers


def _backward_launch(deep: bool, precision: str, device: torch.device) -> Launch:
    if precision == "bf16":
        return (64, 4, 2, 1) if deep else (64, 4, 4, 1)
    if deep and shared_memory(device) < ROOMY:
        return (32, 4, 2, 1)
    return (64, 8, 1, 1)


def _parts(shape: Shape, device: torch.device) -> list[dict[str, bool]]:
    """Launches by which networks they do: apart where weights of both need too much memory."""
    if shape.groups == 1:
        return [{"SCALE": False, "SHIFT": True}]
    if shared_memory(device) < ROOMY:
        return [{"SCALE": True, "SHIFT": False}, {"SCALE": False, "SHIFT": True}]
    return [{"SCALE": True, "SHIFT": True}]


def _tiles(tensor: Tensor | None, launch: Launch) -> TensorDescriptor | None:
    """(L, ..., H) as the tiles of (L, M, H) that Hopper's copy engine moves."""
    if tensor is None:
        return None
    return TensorDescriptor.from_tensor(tensor.flatten(1, -2), [1, launch[0], tensor.shape[-1]])


def _four(layers: Sequence[Tensor]) -> list[Tensor | None]:
    """Weights and biases of four layers; the first three are missing where there is only one."""
    return [None] * (8 - len(layers)) + list(layers)
