# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Couplings of the augmentation on CUDA, as torch's autograd sees them, and their launches."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from pdflow.kernels.gated import GatedWeights, Norm
from pdflow.kernels.gated_backward_triton import (
    gate_backward_kernel,
    gate_weights_kernel,
    shift_backward_kernel,
)
from pdflow.kernels.gated_triton import (
    gate_forward_kernel,
    norm_statistics_kernel,
    shift_forward_kernel,
)
from pdflow.kernels.launch_triton import arithmetic, multiprocessors, sum_partials

PLANES = 6
DPLANES = 4
JOBS = 6
TILE = 128
"""Points of a program up to the norm."""


class GatedCouple(torch.autograd.Function):
    """`pdflow.kernels.gated.gated_couple` with its fused backward."""

    @staticmethod
    def forward(ctx, x, features, total, norm, keep_first, squash, precision, *weights):
        """y (B, N, C), terms (B, N) and features; tensors are contiguous."""
        keep = any(ctx.needs_input_grad)
        weights = GatedWeights(*weights)
        hidden, planes, tiles = gate_forward(
            x, features, weights, keep_first, precision, keep, norm
        )
        statistics = norm_statistics(norm, tiles, x.shape[0] * x.shape[1])
        y, terms, shifts = shift_forward(
            x, hidden, statistics, weights, total, keep_first, squash, precision, keep
        )
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y, hidden, planes, statistics, shifts, *weights)
        ctx.options = keep_first, squash, norm.training, precision
        ctx.has_total = total is not None
        return y, terms, features.view_as(features)

    @staticmethod
    def backward(ctx, dy, dterms, dfeatures):
        """Gradients of x, features, total and weights."""
        x, y, hidden, planes, statistics, shifts, *weights = ctx.saved_tensors
        weights = GatedWeights(*weights)
        keep_first, squash, training, precision = ctx.options
        dy = torch.zeros_like(y) if dy is None else dy.contiguous()
        dterms, dfeatures = (d if d is None else d.contiguous() for d in (dterms, dfeatures))
        dx, dlast, sums = shift_backward(
            x, y, hidden, statistics, weights, shifts, dy, dterms, keep_first, squash, precision
        )
        dfeatures, dplanes, of_norm = gate_backward(
            weights, hidden, statistics, planes, dlast, sums, dx, dfeatures, keep_first, training,
            precision,
        )  # fmt: skip
        of_network = network_gradients(weights, planes, dplanes)
        dtotal = dterms if ctx.has_total else None
        return dx, dfeatures, dtotal, None, None, None, None, *of_network, *of_norm


def gate_forward(
    x: Tensor, features: Tensor, weights: GatedWeights, keep_first: bool, precision: str,
    keep: bool, norm: Norm, tile: int = TILE, warps: int = 8, waves: int = 1,
) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """Input of the norm (B, N, H), what the backward needs, and statistics of tiles."""
    rows = x.shape[0] * x.shape[1]
    count = triton.cdiv(rows, tile)
    hidden = torch.empty_like(features)
    planes = None
    if keep:
        planes = features.new_empty(PLANES, *features.shape, dtype=_backward_type(precision))
    tiles = x.new_empty(count, 2, features.shape[-1]) if norm.training else None
    gate_forward_kernel[(min(count, waves * multiprocessors(x.device)),)](
        x, features, *weights[:8], hidden, planes, tiles, rows, **_kept(weights, keep_first),
        KEEP=keep, STATISTICS=norm.training, TILE=tile, num_warps=warps, **arithmetic(precision),
    )  # fmt: skip
    return hidden, planes, tiles


def norm_statistics(
    norm: Norm, tiles: Tensor | None, rows: int, tile: int = TILE, columns: int = 8
) -> Tensor:
    """Mean and 1 / standard deviation (2, H) that the norm uses; moves its running ones."""
    if tiles is None:
        return torch.stack([norm.mean, torch.rsqrt(norm.var + norm.eps)])
    count, _, width = tiles.shape
    statistics = tiles.new_empty(2, width)
    norm_statistics_kernel[(width // columns,)](
        tiles, statistics, norm.mean, norm.var, rows, count, norm.momentum, norm.eps,
        H=width, COLUMNS=columns, BLOCK=1024, TILE=tile, num_warps=8,
    )  # fmt: skip
    return statistics


def shift_forward(
    x: Tensor, hidden: Tensor, statistics: Tensor, weights: GatedWeights, total: Tensor | None,
    keep_first: bool, squash: bool, precision: str, keep: bool, tile: int = 64, warps: int = 4,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """y (B, N, C), terms (B, N), and shift and raw scale (2, B, N, M) for the backward."""
    rows = x.shape[0] * x.shape[1]
    y, terms = torch.empty_like(x), x.new_empty(x.shape[:2])
    shifts = x.new_empty(2, *x.shape[:2], len(weights.last) // 2) if keep else None
    shift_forward_kernel[(triton.cdiv(rows, tile),)](
        x, hidden, statistics, *weights[8:], total, y, terms, shifts, rows,
        **_kept(weights, keep_first), **_moved(weights, keep_first), HAS_TOTAL=total is not None,
        SQUASH=squash, KEEP=keep, TILE=tile, num_warps=warps, **arithmetic(precision),
    )  # fmt: skip
    return y, terms, shifts


def shift_backward(
    x: Tensor, y: Tensor, hidden: Tensor, statistics: Tensor, weights: GatedWeights, shifts: Tensor,
    dy: Tensor, dterms: Tensor | None, keep_first: bool, squash: bool, precision: str,
    tile: int = 64, warps: int = 4, waves: int = 2,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """dx but for the network's share, gradients of the last layer's output, and their sums."""
    rows = x.shape[0] * x.shape[1]
    programs = min(triton.cdiv(rows, tile), waves * multiprocessors(x.device))
    dx, dlast = torch.empty_like(x), torch.empty_like(shifts)
    sums = x.new_empty(programs, weights.last.numel() + 2 * len(weights.last))
    shift_backward_kernel[(programs,)](
        x, y, hidden, statistics, weights.log_scale, shifts, dy, dterms, dx, dlast, sums, rows,
        **_kept(weights, keep_first), **_moved(weights, keep_first), HAS_TERMS=dterms is not None,
        SQUASH=squash, TILE=tile, num_warps=warps, **_backward_arithmetic(precision),
    )  # fmt: skip
    return dx, dlast, sum_partials(sums)


def gate_backward(
    weights: GatedWeights, hidden: Tensor, statistics: Tensor, planes: Tensor,
    dlast: Tensor, sums: Tensor, dx: Tensor, more: Tensor | None, keep_first: bool,
    training: bool, precision: str, tile: int = 64, warps: int = 4, waves: int = 2,
) -> tuple[Tensor, Tensor, list[Tensor]]:  # fmt: skip
    """dfeatures, what `network_gradients` needs, and gradients from gamma to log_scale.

    The network's share is added to dx; `more` is what dfeatures begins with.
    """
    rows = dx.shape[0] * dx.shape[1]
    dfeatures = torch.empty_like(hidden)
    dplanes = torch.empty_like(planes[:DPLANES])
    dnorm, dweight = torch.empty_like(statistics), torch.empty_like(weights.last)
    moved = _moved(weights, keep_first)
    moved.pop("MOVED_AT")
    programs = min(triton.cdiv(rows, tile), waves * multiprocessors(dx.device))
    gate_backward_kernel[(programs,)](
        weights.lift, weights.inner, weights.gate, weights.condition, weights.gamma,
        weights.beta, weights.last, hidden, statistics, planes, dlast, sums,
        more, dx, dfeatures, dplanes, dnorm, dweight, rows, **_kept(weights, keep_first), **moved,
        BATCH=training, HAS_MORE=more is not None, TILE=tile, num_warps=warps,
        **_backward_arithmetic(precision),
    )  # fmt: skip
    dbias, dlog_scale = sums[weights.last.numel() :].chunk(2)
    return dfeatures, dplanes, [*dnorm, dweight, dbias, dlog_scale]


def network_gradients(
    weights: GatedWeights,
    planes: Tensor,
    dplanes: Tensor,
    tile: int = 64,
    warps: int = 4,
    waves: int = 2,
) -> list[Tensor]:
    """Gradients from lift to condition_bias."""
    _, batch, points, width = planes.shape
    rows = batch * points
    splits = min(triton.cdiv(rows, tile), max(1, waves * multiprocessors(planes.device) // JOBS))
    lift, lift_bias, *others = weights[:8]
    shapes = [*others, lift, lift_bias]
    sizes = [weight.numel() for weight in shapes]
    sums = weights.lift.new_empty(splits, sum(sizes))
    kept = weights.lift.shape[1]
    gate_weights_kernel[(JOBS, splits)](
        planes, dplanes, sums, rows, kept, IN=_padded(kept), H=width, SUMS=sum(sizes), TILE=tile,
        INPUT_PRECISION="ieee" if planes.dtype == torch.float32 else "tf32", num_warps=warps,
    )  # fmt: skip
    parts = sum_partials(sums).split(sizes)
    gradients = [part.view_as(weight) for part, weight in zip(parts, shapes, strict=True)]
    return gradients[-2:] + gradients[:-2]


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
    moved = len(weights.last) // 2
    return {
        "MOVED": moved,
        "MOVED_AT": weights.lift.shape[1] if keep_first else 0,
        "OUT": _padded(moved),
    }


def _padded(channels: int) -> int:
    return max(16, int(triton.next_power_of_2(channels)))


def _backward_type(precision: str) -> torch.dtype:
    """What the forward keeps for the backward, whose products have operands of this type."""
    return torch.float32 if precision == "ieee" else torch.bfloat16


def _backward_arithmetic(precision: str) -> dict[str, object]:
    return arithmetic("ieee" if precision == "ieee" else "bf16")
