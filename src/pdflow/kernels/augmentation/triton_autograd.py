# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Gated couplings on CUDA: their autograd function, and the launches of their kernels."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from pdflow.kernels.augmentation.triton_gate import gate_forward_kernel, norm_statistics_kernel
from pdflow.kernels.augmentation.triton_gate_backward import gate_backward_kernel
from pdflow.kernels.augmentation.triton_gate_weights import JOBS, gate_weights_kernel
from pdflow.kernels.augmentation.triton_shift import shift_backward_kernel, shift_forward_kernel
from pdflow.kernels.augmentation.weights import GatedWeights, Norm, Step
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

PLANES = 3
"""Tensors (B, N, H) that the forward keeps for the backward: u, value and gate."""

ROOMY = 112 * 1024
"""Bytes of shared memory that hold the weights in bf16 and the next tile."""


SHIFT_FORWARD: Launch = (64, 4, 4, 2)
SHIFT_BACKWARD: Launch = (64, 8, 2, 2)
GATE_BACKWARD: Launch = (64, 4, 2, 1)
GATE_WEIGHTS: Launch = (64, 4, 2, 3)
"""Launches of the kernels; that of the first one is `_forward_launch`."""

STATISTICS_COLUMNS = 8
"""Channels of one program of `norm_statistics_kernel`."""


class GatedCouple(torch.autograd.Function):
    """`pdflow.kernels.augmentation.gated_couple` with its fused backward."""

    @staticmethod
    def forward(ctx, x, features, total, norm, step, precision, *weights):
        """y (B, N, C), terms (B, N) and features; tensors are contiguous."""
        keep = any(ctx.needs_input_grad)
        weights = GatedWeights(*weights)
        launch = _forward_launch(precision, x.device)
        hidden, planes, tiles = gate_forward(
            x, features, weights, step, precision, keep, norm.training, launch
        )
        statistics = norm_statistics(norm, tiles, _rows(x), launch[0])
        y, terms, shifts = shift_forward(
            x, hidden, statistics, weights, total, step, precision, keep
        )
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y, features, hidden, planes, statistics, shifts, *weights)
        ctx.options = step, norm.training, precision
        ctx.has_total = total is not None
        return y, terms, features.view_as(features)

    @staticmethod
    def backward(ctx, dy, dterms, dfeatures):
        """Gradients of x, features, total and weights."""
        x, y, features, hidden, planes, statistics, shifts, *weights = ctx.saved_tensors
        weights = GatedWeights(*weights)
        step, training, precision = ctx.options
        dy = torch.zeros_like(y) if dy is None else dy.contiguous()
        dterms, dfeatures = (d if d is None else d.contiguous() for d in (dterms, dfeatures))
        dx, dlast, sums = shift_backward(
            x, y, hidden, statistics, weights, shifts, dy, dterms, step, precision
        )
        features = features.to(planes.dtype)
        dfeatures, dplanes, of_last = gate_backward(
            x, features, weights, hidden, statistics, planes, dlast, sums, dx, dfeatures,
            step, training, precision,
        )  # fmt: skip
        of_network = gate_weights(x, features, weights, planes, dplanes, step, precision)
        dtotal = dterms if ctx.has_total else None
        return dx, dfeatures, dtotal, None, None, None, *of_network, *of_last


def gate_forward(
    x: Tensor, features: Tensor, weights: GatedWeights, step: Step, precision: str,
    keep: bool, training: bool, launch: Launch,
) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """Input of the norm (B, N, H), what the backward needs, and statistics of tiles."""
    rows = _rows(x)
    hidden = torch.empty_like(features, dtype=_forward_type(precision))
    planes = tiles = None
    if keep:
        planes = features.new_empty(PLANES, *features.shape, dtype=_backward_type(precision))
    if training:
        tiles = x.new_empty(triton.cdiv(rows, launch[0]), 2, features.shape[-1])
    gate_forward_kernel[(programs_for(rows, launch, x.device),)](
        x, features, *weights[:8], hidden, planes, tiles, rows, **_kept(weights, step),
        KEEP=keep, STATISTICS=training, **tiling(launch), **arithmetic(precision),
    )  # fmt: skip
    return hidden, planes, tiles


def norm_statistics(norm: Norm, tiles: Tensor | None, rows: int, tile: int) -> Tensor:
    """Mean and 1 / standard deviation (2, H) for the norm; updates its running statistics."""
    if tiles is None:
        return torch.stack([norm.mean, torch.rsqrt(norm.var + norm.eps)])
    count, _, width = tiles.shape
    statistics = tiles.new_empty(2, width)
    norm_statistics_kernel[(width // STATISTICS_COLUMNS,)](
        tiles, statistics, norm.mean, norm.var, rows, count, norm.momentum, norm.eps,
        H=width, COLUMNS=STATISTICS_COLUMNS, BLOCK=1024, TILE=tile, num_warps=8,
    )  # fmt: skip
    return statistics


def shift_forward(
    x: Tensor, hidden: Tensor, statistics: Tensor, weights: GatedWeights, total: Tensor | None,
    step: Step, precision: str, keep: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """y (B, N, C), terms (B, N), and shift and raw scale (2, B, N, M) for the backward."""
    rows = _rows(x)
    y, terms = torch.empty_like(x), x.new_empty(x.shape[:2])
    shifts = None
    if keep:
        shape = (2, *x.shape[:2], len(weights.last) // 2)
        shifts = x.new_empty(shape, dtype=_forward_type(precision))
    shift_forward_kernel[(programs_for(rows, SHIFT_FORWARD, x.device),)](
        x, hidden, statistics, *weights[8:], total, y, terms, shifts, rows,
        **_kept(weights, step), **_moved(weights, step), HAS_TOTAL=total is not None,
        DRAWN=step.drawn, SQUASH=step.squash, KEEP=keep, **tiling(SHIFT_FORWARD),
        **arithmetic(precision),
    )  # fmt: skip
    return y, terms, shifts


def shift_backward(
    x: Tensor, y: Tensor, hidden: Tensor, statistics: Tensor, weights: GatedWeights, shifts: Tensor,
    dy: Tensor, dterms: Tensor | None, step: Step, precision: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """dx without the network's share, gradients of the last layer's output, and sums."""
    rows = _rows(x)
    programs = programs_for(rows, SHIFT_BACKWARD, x.device)
    dx = torch.empty_like(x)
    dlast = torch.empty_like(shifts, dtype=_backward_type(precision))
    sums = x.new_empty(programs, weights.last.numel() + 2 * len(weights.last))
    shift_backward_kernel[(programs,)](
        x, y, hidden, statistics, weights.log_scale, shifts, dy, dterms, dx, dlast, sums, rows,
        **_kept(weights, step), **_moved(weights, step), HAS_TERMS=dterms is not None,
        DRAWN=step.drawn, SQUASH=step.squash, **tiling(SHIFT_BACKWARD),
        **_backward_arithmetic(precision),
    )  # fmt: skip
    return dx, dlast, sum_partials(sums)


def gate_backward(
    x: Tensor, features: Tensor, weights: GatedWeights, hidden: Tensor, statistics: Tensor,
    planes: Tensor, dlast: Tensor, sums: Tensor, dx: Tensor, more: Tensor | None,
    step: Step, training: bool, precision: str,
) -> tuple[Tensor, Tensor, list[Tensor]]:  # fmt: skip
    """Go back from the norm; adds the network's share to dx.

    more     (B, N, H) gradient of the features from later couplings
    returns  dfeatures (B, N, H), with `more`; gradients of h, u, value and gate (4, B, N, H) for
             `gate_weights`; gradients from gamma to log_scale
    """
    rows = _rows(x)
    dfeatures = torch.empty_like(features)
    dplanes = planes.new_empty(4, *features.shape)
    dnorm, dlast_layer = torch.empty_like(statistics), torch.empty_like(sums)
    gate_backward_kernel[(programs_for(rows, GATE_BACKWARD, x.device),)](
        x, tiles(features, rows, GATE_BACKWARD), tiles(planes, rows, GATE_BACKWARD), weights.lift,
        weights.lift_bias, weights.inner, weights.gate, weights.condition, weights.gamma,
        weights.beta, weights.last, tiles(hidden, rows, GATE_BACKWARD), statistics, dlast, sums,
        tiles(more, rows, GATE_BACKWARD), dx, dfeatures, dplanes, dnorm, dlast_layer, rows,
        BATCH=training, HAS_MORE=more is not None, **_kept(weights, step),
        **_outputs(weights), **tiling(GATE_BACKWARD), **_backward_arithmetic(precision),
    )  # fmt: skip
    last = split_like(dlast_layer, [weights.last, weights.last_bias, weights.log_scale])
    return dfeatures, dplanes, [*dnorm, *last]


def gate_weights(
    x: Tensor, features: Tensor, weights: GatedWeights, planes: Tensor, dplanes: Tensor,
    step: Step, precision: str,
) -> list[Tensor]:  # fmt: skip
    """Gradients from lift to condition_bias, from the results of `gate_backward`."""
    rows = _rows(features)
    shapes = weights[:8]
    size = sum(weight.numel() for weight in shapes)
    sums = weights.lift.new_empty(programs_for(rows, GATE_WEIGHTS, features.device, JOBS), size)
    gate_weights_kernel[(JOBS, len(sums))](
        x, features, planes, weights.lift, weights.lift_bias, dplanes, sums, rows, SUMS=size,
        **_kept(weights, step), **tiling(GATE_WEIGHTS), **_backward_arithmetic(precision),
    )  # fmt: skip
    return split_like(sum_partials(sums), shapes)


def _forward_launch(precision: str, device: torch.device) -> Launch:
    """In bf16, the weights leave room for two programs on a multiprocessor."""
    if precision != "bf16":
        return 128, 8, 1, 1
    return (64, 4, 2, 2) if shared_memory(device) >= ROOMY else (64, 4, 2, 1)


def _rows(x: Tensor) -> int:
    """Points of a batch (B, N, C)."""
    return x.shape[0] * x.shape[1]


def _kept(weights: GatedWeights, step: Step) -> dict[str, int]:
    width, kept = weights.lift.shape
    moved = len(weights.last) // 2
    return {
        "C": kept + moved,
        "KEPT": kept,
        "KEPT_AT": 0 if step.keep_first else moved,
        "IN": _padded(kept),
        "H": width,
    }


def _moved(weights: GatedWeights, step: Step) -> dict[str, int]:
    return {"MOVED_AT": weights.lift.shape[1] if step.keep_first else 0, **_outputs(weights)}


def _outputs(weights: GatedWeights) -> dict[str, int]:
    moved = len(weights.last) // 2
    return {"MOVED": moved, "OUT": _padded(moved)}


def _padded(channels: int) -> int:
    return max(16, int(triton.next_power_of_2(channels)))


def _forward_type(precision: str) -> torch.dtype:
    """Type of tensors that the first half of the forward leaves for the second."""
    return torch.bfloat16 if precision == "bf16" else torch.float32


def _backward_type(precision: str) -> torch.dtype:
    """Type of tensors that the forward keeps for products of the backward."""
    return torch.float32 if precision == "ieee" else torch.bfloat16


def _backward_arithmetic(precision: str) -> dict[str, object]:
    return arithmetic("ieee" if precision == "ieee" else "bf16")
