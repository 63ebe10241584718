# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Sums by atomics whose bits do not depend on the order of their terms.

A floating-point sum is exact, and so the same in any order, if its terms are multiples of one unit
and no partial sum reaches 2^24 units. Rounding a term to such a multiple takes two additions:
(x + anchor) - anchor, where the anchor is 1.5 * 2^23 units (Demmel and Nguyen, Fast Reproducible
Floating-Point Summation, 2013).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

EXPONENT = tl.constexpr(0x7F800000)
HALF = tl.constexpr(0x00400000)
"""Bits of an fp32 number: its exponent, and the half in 1.5."""

HEADROOM = tl.constexpr(16.0)
"""Partial sums may reach this many times the longest possible term before they are rounded. Terms
keep 19 bits below the longest. They are much shorter as a rule, and point in all directions."""

TILE = 128


@triton.jit
def anchors_kernel(
    d_ptr, weight_ptr, anchors_ptr, points, weight_stride, out_stride, scale,
    IN: tl.constexpr, OUT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The anchor for terms d W scale of one patch and group, from the longest rows of both."""
    place = (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)).to(tl.int64)
    out = tl.arange(0, OUT)[None, :]
    at = tl.arange(0, IN)[:, None] * weight_stride + out * out_stride
    weight = tl.load(weight_ptr + tl.program_id(1) * IN * OUT + at).to(tl.float32)
    sq_longest = tl.zeros((TILE,), tl.float32)
    for first in range(0, points, TILE):
        row = first + tl.arange(0, TILE)
        d_at = (place * points + row)[:, None] * OUT + out
        d = tl.load(d_ptr + d_at, mask=(row < points)[:, None], other=0.0).to(tl.float32)
        sq_longest = tl.maximum(sq_longest, tl.sum(d * d, 1))
    longest = tl.sqrt(tl.max(sq_longest, 0)) * tl.sqrt(tl.max(tl.sum(weight * weight, 1), 0))
    bits = (longest * (HEADROOM * scale)).to(tl.int32, bitcast=True)
    tl.store(anchors_ptr + place, ((bits & EXPONENT) | HALF).to(tl.float32, bitcast=True))


def anchors(d: Tensor, weight: Tensor, scale: float = 1.0) -> Tensor:
    """Anchors (G, B) for the terms d W^T scale, or parts of them, that are summed within a patch.

    d       (G, B, N, O), contiguous
    weight  (G, I, O) in any layout within a group
    """
    groups, batch, points, out = d.shape
    found = d.new_empty(groups, batch, dtype=torch.float32)
    anchors_kernel[batch, groups](
        d, weight, found, points, weight.stride(1), weight.stride(2), scale,
        IN=weight.shape[1], OUT=out, TILE=TILE, num_warps=8,
    )  # fmt: skip
    return found
