# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Couplings of the augmentation on CUDA, as torch's autograd sees them, and their launches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from pdflow.kernels.gated import GatedWeights, Norm
from pdflow.kernels.gated_backward_triton import (
    gates_backward_kernel,
    kept_backward_kernel,
)
from pdflow.kernels.gated_shift_triton import shift_backward_kernel, shift_forward_kernel
from pdflow.kernels.gated_triton import gate_forward_kernel, norm_statistics_kernel
from pdflow.kernels.launch_triton import arithmetic, multiprocessors, sum_partials

PLANES = 3


class GatedCouple(torch.autograd.Function):
    """`pdflow.kernels.gated.gated_couple` with its fused backward."""

    @staticmethod
    def forward(ctx, x, features, total, norm, keep_first, drawn, squash, precision, *weights):
        """y (B, N, C), terms (B, N) and features; tensors are contiguous."""
        keep = any(ctx.needs_input_grad)
        weights = GatedWeights(*weights)
        # The weights leave room for two programs on a multiprocessor, if they are bf16.
        tile, *launch = (64, 4, 2) if precision == "bf16" else (128, 8, 1)
        hidden, planes, tiles = gate_forward(
            x, features, weights, keep_first, precision, keep, norm, tile, *launch
        )
        statistics = norm_statistics(norm, tiles, _rows(x, norm.parts), tile)
        y, terms, shifts = shift_forward(
            x, hidden, statistics, weights, total, keep_first, drawn, squash, precision, keep
        )
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y, features, hidden, planes, statistics, shifts, *weights)
        ctx.options = keep_first, drawn, squash, norm.training, precision
        ctx.has_total = total is not None
        return y, terms, features.view_as(features)

    @staticmethod
    def backward(ctx, dy, dterms, dfeatures):
        """Gradients of x, features, total and weights."""
        x, y, features, hidden, planes, statistics, shifts, *weights = ctx.saved_tensors
        weights = GatedWeights(*weights)
        keep_first, drawn, squash, training, precision = ctx.options
        dy = torch.zeros_like(y) if dy is None else dy.contiguous()
        dterms, dfeatures = (d if d is None else d.contiguous() for d in (dterms, dfeatures))
        dx, dlast, sums = shift_backward(
            x, y, hidden, statistics, weights, shifts, dy, dterms, keep_first, drawn, squash,
            precision,
        )  # fmt: skip
        dfeatures, du, of_gates = gates_backward(
            features, weights, hidden, statistics, planes, dlast, sums, dfeatures, training,
            precision,
        )  # fmt: skip
        of_kept, of_last = kept_backward(
            x, du, weights, hidden, statistics, dlast, sums, dx, keep_first, training, precision
        )
        dtotal = dterms if ctx.has_total else None
        return (
            dx, dfeatures, dtotal, None, None, None, None, None,
            *of_kept, *of_gates, *of_last,
        )  # fmt: skip


def gate_forward(
    x: Tensor, features: Tensor, weights: GatedWeights, keep_first: bool, precision: str,
    keep: bool, norm: Norm, tile: int, warps: int, waves: int,
) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """Input of the norm (B, N, H), what the backward needs, and statistics of tiles."""
    rows = _rows(x, norm.parts)
    count = triton.cdiv(rows, tile)
    hidden = torch.empty_like(features, dtype=_forward_type(precision))
    planes = None
    if keep:
        planes = features.new_empty(PLANES, *features.shape, dtype=_backward_type(precision))
    tiles = x.new_empty(norm.parts, count, 2, features.shape[-1]) if norm.training else None
    gate_forward_kernel[_grid(rows, norm.parts, tile, waves, x)](
        x, features, *weights[:8], hidden, planes, tiles, rows, **_kept(weights, keep_first),
        KEEP=keep, STATISTICS=norm.training, TILE=tile, num_warps=warps, **arithmetic(precision),
    )  # fmt: skip
    return hidden, planes, tiles


def norm_statistics(
    norm: Norm, tiles: Tensor | None, rows: int, tile: int, columns: int = 8
) -> Tensor:
    """Mean and 1 / standard deviation (parts, 2, H) for the norm; moves its running ones."""
    if tiles is None:
        running = torch.stack([norm.mean, torch.rsqrt(norm.var + norm.eps)])
        return running.repeat(norm.parts, 1, 1)
    parts, count, _, width = tiles.shape
    statistics = tiles.new_empty(parts, 2, width)
    norm_statistics_kernel[(width // columns,)](
        tiles, statistics, norm.mean, norm.var, rows, parts, count, norm.momentum, norm.eps,
        H=width, COLUMNS=columns, BLOCK=1024, TILE=tile, num_warps=8,
    )  # fmt: skip
    return statistics


def shift_forward(
    x: Tensor, hidden: Tensor, statistics: Tensor, weights: GatedWeights, total: Tensor | None,
    keep_first: bool, drawn: bool, squash: bool, precision: str, keep: bool, tile: int = 64,
    warps: int = 4,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """y (B, N, C), terms (B, N), and shift and raw scale (2, B, N, M) for the backward."""
    parts = len(statistics)
    rows = _rows(x, parts)
    y, terms = torch.empty_like(x), x.new_empty(x.shape[:2])
    shifts = None
    if keep:
        shape = (2, *x.shape[:2], len(weights.last) // 2)
        shifts = x.new_empty(shape, dtype=_forward_type(precision))
    shift_forward_kernel[(triton.cdiv(rows, tile), parts)](
        x, hidden, statistics, *weights[8:], total, y, terms, shifts, rows,
        **_kept(weights, keep_first), **_moved(weights, keep_first), HAS_TOTAL=total is not None,
        DRAWN=drawn, SQUASH=squash, KEEP=keep, TILE=tile, num_warps=warps, **arithmetic(precision),
    )  # fmt: skip
    return y, terms, shifts


def shift_backward(
    x: Tensor, y: Tensor, hidden: Tensor, statistics: Tensor, weights: GatedWeights, shifts: Tensor,
    dy: Tensor, dterms: Tensor | None, keep_first: bool, drawn: bool, squash: bool, precision: str,
    tile: int = 64, warps: int = 8, waves: int = 2,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """dx but for the network's share, gradients of the last layer's output, and sums of parts."""
    parts = len(statistics)
    rows = _rows(x, parts)
    grid = _grid(rows, parts, tile, waves, x)
    dx = torch.empty_like(x)
    dlast = torch.empty_like(shifts, dtype=_backward_type(precision))
    sums = x.new_empty(grid[0], parts * (weights.last.numel() + 2 * len(weights.last)))
    shift_backward_kernel[grid](
        x, y, hidden, statistics, weights.log_scale, shifts, dy, dterms, dx, dlast, sums, rows,
        **_kept(weights, keep_first), **_moved(weights, keep_first), HAS_TERMS=dterms is not None,
        DRAWN=drawn, SQUASH=squash, TILE=tile, num_warps=warps, **_backward_arithmetic(precision),
    )  # fmt: skip
    return dx, dlast, sum_partials(sums)


def gates_backward(
    features: Tensor, weights: GatedWeights, hidden: Tensor, statistics: Tensor, planes: Tensor,
    dlast: Tensor, sums: Tensor, more: Tensor | None, training: bool, precision: str,
    tile: int = 128, warps: int = 8, waves: int = 1,
) -> tuple[Tensor, Tensor, list[Tensor]]:  # fmt: skip
    """dfeatures, which begins with `more`, du, and gradients from gate to condition_bias."""
    parts = len(statistics)
    rows = _rows(features, parts)
    programs, _ = _grid(rows, 2 * parts, tile, waves, features)
    shapes = [weights.condition, weights.gate, weights.gate_bias]
    sizes = [weight.numel() for weight in shapes]
    partials = sums.new_empty(programs * parts, sum(sizes))
    dfeatures, du = planes.new_empty(2, *features.shape)
    gates_backward_kernel[(programs, parts, 2)](
        features.to(planes.dtype), planes, weights.condition, weights.gate, weights.last,
        weights.gamma, hidden, statistics, dlast, sums, more, dfeatures, du, partials, rows,
        H=features.shape[-1], BATCH=training, HAS_MORE=more is not None, TILE=tile,
        num_warps=warps, **_outputs(weights), **_backward_arithmetic(precision),
    )  # fmt: skip
    condition, gate, bias = _split(sum_partials(partials), shapes)
    return dfeatures, du, [gate, bias, condition, bias]


def kept_backward(
    x: Tensor, du: Tensor, weights: GatedWeights, hidden: Tensor, statistics: Tensor,
    dlast: Tensor, sums: Tensor, dx: Tensor, keep_first: bool, training: bool, precision: str,
    tile: int = 64, warps: int = 4, waves: int = 2,
) -> tuple[list[Tensor], list[Tensor]]:  # fmt: skip
    """Gradients from lift to inner_bias, and from gamma to log_scale. Adds to dx."""
    parts = len(statistics)
    rows = _rows(x, parts)
    grid = _grid(rows, parts, tile, waves, x)
    shapes, last = weights[:4], [weights.last, weights.last_bias, weights.log_scale]
    partials = sums.new_empty(grid[0] * parts, sum(weight.numel() for weight in shapes))
    dnorm, dlast_layer = torch.empty_like(statistics[0]), sums.new_empty(len(sums) // parts)
    kept_backward_kernel[grid](
        x, du, weights.lift, weights.lift_bias, weights.inner, weights.gamma, weights.beta,
        weights.last, hidden, statistics, dlast, sums, dx, dnorm, dlast_layer, partials, rows,
        BATCH=training, SUMS=partials.shape[1], TILE=tile, num_warps=warps,
        **_kept(weights, keep_first), **_outputs(weights), **_backward_arithmetic(precision),
    )  # fmt: skip
    return _split(sum_partials(partials), shapes), [*dnorm, *_split(dlast_layer, last)]


def _rows(x: Tensor, parts: int) -> int:
    """Points of each part of a batch (B, N, C)."""
    return x.shape[0] * x.shape[1] // parts


def _grid(rows: int, parts: int, tile: int, waves: int, x: Tensor) -> tuple[int, int]:
    """Programs that share the tiles of a part, and parts."""
    return min(triton.cdiv(rows, tile), -(-waves * multiprocessors(x.device) // parts)), parts


def _split(sums: Tensor, shapes: Sequence[Tensor]) -> list[Tensor]:
    """Gradients of weights that lie one after the other."""
    parts = sums.split([weight.numel() for weight in shapes])
    return [part.view_as(weight) for part, weight in zip(parts, shapes, strict=True)]


def _kept(weights: GatedWeights, keep_first: bool) -> dict[str, int]:
    width, kept = weights.lift.shape
    moved = len(weights.last) // 2
    return {
        "C": kept + moved,
        "KEPT": kept,
        "KEPT_AT": 0 if keep_first else moved,
        "IN": _padded(kept),
        "H": width,
    }


def _moved(weights: GatedWeights, keep_first: bool) -> dict[str, int]:
    return {"MOVED_AT": weights.lift.shape[1] if keep_first else 0, **_outputs(weights)}


def _outputs(weights: GatedWeights) -> dict[str, int]:
    moved = len(weights.last) // 2
    return {"MOVED": moved, "OUT": _padded(moved)}


def _padded(channels: int) -> int:
    return max(16, int(triton.next_power_of_2(channels)))


def _forward_type(precision: str) -> torch.dtype:
    """What the forward keeps for its second half."""
    return torch.bfloat16 if precision == "bf16" else torch.float32


def _backward_type(precision: str) -> torch.dtype:
    """What the forward keeps for the backward, whose products have operands of this type."""
    return torch.float32 if precision == "ieee" else torch.bfloat16


def _backward_arithmetic(precision: str) -> dict[str, object]:
    return arithmetic("ieee" if precision == "ieee" else "bf16")
