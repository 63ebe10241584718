# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Couplings on CUDA: their autograd function, and the launches of their kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from pdflow.kernels.coupling.direction import Direction
from pdflow.kernels.coupling.triton_backward import (
    couple_backward_layer_kernel,
    couple_backward_layers_kernel,
    couple_backward_outputs_kernel,
)
from pdflow.kernels.coupling.triton_forward import couple_forward_kernel
from pdflow.kernels.triton_launch import (
    Launch,
    arithmetic,
    programs_for,
    shared_memory,
    split_like,
    sum_partials,
    tiles,
    tiling,
)

ROOMY = 150 * 1024
"""Bytes of shared memory that hold the weights of scale and shift in tf32."""


@dataclass(frozen=True)
class Shape:
    """What the kernels are compiled for: channels, kept channels, groups, direction."""

    channels: int
    kept: int
    groups: int
    direction: Direction

    def constants(self) -> dict[str, Any]:
        """Constant arguments of the kernels."""
        return {
            "C": self.channels,
            "KEPT": self.kept,
            "IN": max(16, triton.next_power_of_2(self.kept + 1)),
            "OUT": max(16, triton.next_power_of_2(self.channels - self.kept)),
            "GROUPS": self.groups,
            "INVERSE": self.direction.inverse,
            "FLIP_IN": self.direction.flip_in,
            "FLIP_OUT": self.direction.flip_out,
        }


@dataclass(frozen=True)
class Kept:
    """What the forward pass keeps for the backward pass.

    scale   (M, moved channels) of an affine coupling
    inputs  (1, M, IN) rounded inputs of a network of four layers, and a one, padded with zeros
    hidden  (2 G, M, H) its second and third hidden layer after the relu
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
    """Launch the forward kernel: y, terms and, with `keep`, what the backward pass needs.

    The forward pass moves coordinates, so "bf16" means fp16 here, which has as many digits as tf32.
    Hidden layers are kept in bf16.
    """
    rows = x.shape[0] * x.shape[1]
    deep = features is None
    launch = launch or _forward_launch(deep, shape.groups, precision)
    width = layers[-2].shape[1]
    is_affine = shape.groups == 2
    y = torch.empty_like(x)
    terms = x.new_empty(x.shape[:2]) if is_affine else None
    parts = _parts(shape, x.device)
    constants = shape.constants()
    scale = inputs = hidden = None
    if is_affine and (keep or len(parts) == 2):
        scale = x.new_empty(rows, shape.channels - shape.kept)
    if keep and deep:
        seen = torch.float16 if precision == "bf16" else torch.float32
        inputs = x.new_empty(1, rows, constants["IN"], dtype=seen)
        hidden = x.new_empty(2 * shape.groups, rows, width, dtype=_rounded(precision))
    for part in parts:
        couple_forward_kernel[(programs_for(rows, launch, x.device),)](
            x, features, total, *_four(layers), y, terms, scale, tiles(inputs, rows, launch),
            tiles(hidden, rows, launch), rows, factor, H=width, DEEP=deep,
            HAS_TOTAL=total is not None, KEEP=keep, EVEN=rows % launch[0] == 0,
            **part, **tiling(launch), **constants,
            **(arithmetic(precision) | ({"DOT": tl.float16} if precision == "bf16" else {})),
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
    dx, dout = backward_outputs(x, y, kept.scale, dy, dterms, factor, shape, precision)
    if features is None:
        assert kept.inputs is not None
        assert kept.hidden is not None
        sums = backward_layers(dout, kept.hidden, kept.inputs, layers, dx, shape, precision)
        dfeatures = None
    else:
        dfeatures, sums = backward_layer(dout, features, layers, shape, precision)
    return dx, dfeatures, split_like(sum_partials(sums), layers)


def backward_outputs(
    x: Tensor,
    y: Tensor,
    scale: Tensor | None,
    dy: Tensor,
    dterms: Tensor | None,
    factor: float,
    shape: Shape,
    precision: str,
    tile: int = 16,
    warps: int = 4,
) -> tuple[Tensor, Tensor]:
    """Gradients of x without the network's share, and of the network's output (G, M, OUT)."""
    rows = x.shape[0] * x.shape[1]
    constants = shape.constants()
    dx = torch.empty_like(x)
    dout = x.new_empty(shape.groups, rows, constants["OUT"], dtype=_rounded(precision))
    couple_backward_outputs_kernel[(triton.cdiv(rows, tile),)](
        x, y, scale, dy, dterms, dx, dout, rows, factor,
        HAS_TERMS=dterms is not None, TILE=tile, num_warps=warps, **constants,
    )  # fmt: skip
    return dx, dout


def backward_layers(
    dout: Tensor,
    hidden: Tensor,
    inputs: Tensor,
    layers: Sequence[Tensor],
    dx: Tensor,
    shape: Shape,
    precision: str,
    launch: Launch | None = None,
) -> Tensor:
    """Go back through four layers, group by group: adds to dx; sums (P, S) for the layers."""
    if launch is None:
        launch = _backward_launch(precision, shared_memory(dx.device) >= ROOMY)
    rows = dout.shape[1]
    size = sum(layer.numel() for layer in layers)
    constants = shape.constants()
    sums = dx.new_empty(programs_for(rows, launch, dx.device), size)
    moved = [tiles(tensor, rows, launch) for tensor in (dout, hidden, inputs)]
    for group in range(shape.groups):
        couple_backward_layers_kernel[(len(sums),)](
            *moved, *layers[:2], *layers[2::2], dx, sums, rows, H=hidden.shape[2], GROUP=group,
            EVEN=rows % launch[0] == 0, SUMS=size, **tiling(launch), **arithmetic(precision),
            **{name: constants[name] for name in ("C", "KEPT", "IN", "OUT", "GROUPS", "FLIP_IN")},
        )  # fmt: skip
    return sums


def backward_layer(
    dout: Tensor,
    features: Tensor,
    layers: Sequence[Tensor],
    shape: Shape,
    precision: str,
    launch: Launch = (64, 4, 4, 3),
) -> tuple[Tensor, Tensor]:
    """Go back through one layer: gradients of features, and sums (P, S) for the layer."""
    rows = dout.shape[1]
    size = sum(layer.numel() for layer in layers)
    constants = shape.constants()
    dfeatures = torch.empty_like(features)
    programs = programs_for(rows, launch, dout.device, shape.groups)
    sums = layers[0].new_empty(programs, size)
    couple_backward_layer_kernel[(programs, shape.groups)](
        tiles(dout, rows, launch), tiles(features, rows, launch), layers[0],
        tiles(dfeatures, rows, launch), sums, rows, H=features.shape[-1], SUMS=size,
        **tiling(launch), **arithmetic(precision),
        **{name: constants[name] for name in ("C", "KEPT", "OUT", "GROUPS")},
    )  # fmt: skip
    return dfeatures, sums


def _forward_launch(deep: bool, groups: int, precision: str) -> Launch:
    if not deep:
        return 64, 4, 4, 1
    return (64, 4, 4 // groups, 2) if precision == "bf16" else (64, 4, 2, 1)


def _backward_launch(precision: str, roomy: bool) -> Launch:
    if precision == "bf16":
        return 64, 4, 2, 3 if roomy else 1
    return (64, 8, 1, 1) if roomy else (16, 4, 2, 1)


def _parts(shape: Shape, device: torch.device) -> list[dict[str, bool]]:
    """Networks of each launch: one at a time if the weights of both need too much memory."""
    if shape.groups == 1:
        return [{"SCALE": False, "SHIFT": True}]
    if shared_memory(device) < ROOMY:
        return [{"SCALE": True, "SHIFT": False}, {"SCALE": False, "SHIFT": True}]
    return [{"SCALE": True, "SHIFT": True}]


def _rounded(precision: str) -> torch.dtype:
    """Type of tensors that only the backward pass reads."""
    return torch.bfloat16 if precision == "bf16" else torch.float32


def _four(layers: Sequence[Tensor]) -> list[Tensor | None]:
    """Weights and biases of four layers; with one layer, the first three are None."""
    return [None] * (8 - len(layers)) + list(layers)
