# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Couplings on CUDA, as torch's autograd sees them, and how their kernels are launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from pdflow.kernels.coupling_backward_triton import (
    couple_backward_kernel,
    couple_backward_weights_kernel,
)
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
"""Bytes of shared memory for which a program can hold the weights of scale and shift."""


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
            "IN": max(16, triton.next_power_of_2(self.kept)),
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
    inputs  (M, IN) the network's inputs, padded with zeros
    hidden  (3, G, M, H) its hidden layers after the relu
    """

    scale: Tensor | None
    inputs: Tensor | None
    hidden: Tensor | None


class Couple(torch.autograd.Function):
    """`pdflow.kernels.coupling.couple` with its fused backward."""

    @staticmethod
    def forward(ctx, x, total, features, factor, shape, precision, *layers):
        """y (B, N, C) and terms (B, N); arguments are contiguous."""
        y, terms, kept = forward(x, total, features, layers, factor, shape, precision)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y, features, kept.scale, kept.inputs, kept.hidden, *layers)
        ctx.options = factor, shape, precision
        ctx.has_total = total is not None
        return y, terms

    @staticmethod
    def backward(ctx, dy, dterms):
        """Gradients of x, total, features and layers."""
        x, y, features, scale, inputs, hidden, *layers = ctx.saved_tensors
        dy = torch.zeros_like(y) if dy is None else dy.contiguous()
        dterms = None if dterms is None else dterms.contiguous()
        kept = Kept(scale, inputs, hidden)
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

    The forward pass moves coordinates, so "bf16" means tf32 here; what is kept is rounded.
    """
    rows = x.shape[0] * x.shape[1]
    deep = features is None
    launch = launch or ((64, 4, 2, 1) if deep else (64, 4, 4, 1))
    width = layers[-2].shape[1]
    constants = shape.constants()
    is_affine = shape.groups == 2
    y = torch.empty_like(x)
    terms = x.new_empty(x.shape[:2]) if is_affine else None
    parts = _parts(shape, x.device)
    scale = inputs = hidden = None
    if is_affine and (keep or len(parts) == 2):
        scale = x.new_empty(rows, shape.channels - shape.kept)
    if keep and deep:
        inputs = x.new_empty(rows, constants["IN"], dtype=_rounded(precision))
        hidden = x.new_empty(3, shape.groups, rows, width, dtype=_rounded(precision))
    for part in parts:
        couple_forward_kernel[(programs_for(rows, launch, x.device),)](
            x, features, total, *_four(layers), y, terms, scale, inputs, hidden, rows, factor,
            H=width, DEEP=deep, HAS_TOTAL=total is not None, KEEP=keep, **part, **tiling(launch),
            **constants, **arithmetic("tf32" if precision == "bf16" else precision),
        )  # fmt: skip
    return y, terms, Kept(scale, inputs, hidden)


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
) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    """Launch the backward kernels: gradients of x, features and layers."""
    hidden = kept.hidden if features is None else features
    assert hidden is not None
    dx, dhidden, dout = backward_points(
        x, y, hidden, kept.scale, dy, dterms, layers, factor, shape, precision
    )
    dlayers = backward_weights(kept.inputs, hidden, dhidden, dout, layers, shape, precision)
    return dx, None if features is None else dhidden, dlayers


def backward_points(
    x: Tensor,
    y: Tensor,
    hidden: Tensor,
    scale: Tensor | None,
    dy: Tensor,
    dterms: Tensor | None,
    layers: Sequence[Tensor],
    factor: float,
    shape: Shape,
    precision: str,
    launch: Launch | None = None,
    apart: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, of hidden layers or features, and of the network's output (G, M, OUT).

    apart  launch one kernel for the scale and one for the shift; by default for deep networks
    """
    deep = len(layers) > 2
    launch = launch or ((64, 4, 3, 1) if shape.groups == 2 else (64, 4, 4, 1))
    apart = deep if apart is None else apart
    rows = x.shape[0] * x.shape[1]
    constants = shape.constants()
    dx = torch.empty_like(x)
    dhidden = torch.empty_like(hidden)
    dout = x.new_empty(shape.groups, rows, constants["OUT"], dtype=_rounded(precision))
    for part in _parts(shape, x.device, apart):
        couple_backward_kernel[(programs_for(rows, launch, x.device),)](
            x, y, hidden, scale, dy, dterms, *_four(layers)[::2], dx, dhidden, dout, rows, factor,
            H=layers[-2].shape[1], DEEP=deep, HAS_TERMS=dterms is not None,
            **part, **tiling(launch), **constants, **arithmetic(precision),
        )  # fmt: skip
    return dx, dhidden, dout


def backward_weights(
    inputs: Tensor | None,
    hidden: Tensor,
    dhidden: Tensor,
    dout: Tensor,
    layers: Sequence[Tensor],
    shape: Shape,
    precision: str,
    launch: Launch | None = None,
) -> list[Tensor]:
    """Gradients of weights and biases.

    inputs, hidden  what goes into the layers
    dhidden, dout   gradients of what comes out of them
    """
    jobs = shape.groups * len(layers) // 2
    if launch is None:
        many = 2 if jobs == 8 else 1
        launch = (128, 8, many, 3) if precision == "bf16" else (64, 4, 4, 2)
    rows = dout.shape[1]
    width, moved = layers[-2].shape[1:]
    sizes = [layer.numel() for layer in layers]
    shares = programs_for(rows, launch, dout.device, jobs)
    sums = dout.new_empty(shares, sum(sizes), dtype=torch.float32)
    constants = {name: shape.constants()[name] for name in ("IN", "OUT", "GROUPS")}
    couple_backward_weights_kernel[(jobs, shares)](
        inputs, hidden, dhidden, dout, sums, rows, shape.kept, width, moved,
        H=width, DEEP=len(layers) > 2, SUMS=sum(sizes),
        **tiling(launch), **constants, **arithmetic(precision),
    )  # fmt: skip
    parts = sum_partials(sums).split(sizes)
    return [part.view_as(layer) for part, layer in zip(parts, layers, strict=True)]


def _parts(shape: Shape, device: torch.device, apart: bool = False) -> list[dict[str, bool]]:
    """Launches by which networks they do: apart where weights of both need too much memory."""
    if shape.groups == 1:
        return [{"SCALE": False, "SHIFT": True}]
    if apart or shared_memory(device) < ROOMY:
        return [{"SCALE": True, "SHIFT": False}, {"SCALE": False, "SHIFT": True}]
    return [{"SCALE": True, "SHIFT": True}]


def _rounded(precision: str) -> torch.dtype:
    """How tensors are stored that only the backward pass reads."""
    return torch.bfloat16 if precision == "bf16" else torch.float32


def _four(layers: Sequence[Tensor]) -> list[Tensor | None]:
    """Weights and biases of four layers; the first three are missing where there is only one."""
    return [None] * (8 - len(layers)) + list(layers)
