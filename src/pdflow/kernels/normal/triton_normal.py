# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Standard normal numbers on CUDA, four by each thread."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from pdflow.kernels import normal

WORD = tl.constexpr(normal.WORD)
HALF_WORD = tl.constexpr(normal.WORD / 2)
ANGLE = tl.constexpr(normal.ANGLE)

GROUPS = 256
"""Groups of four numbers of one program."""


@triton.jit
def _box_muller(v, w):
    """Two normal numbers from two words."""
    radius = tl.sqrt(-2.0 * tl.log(v.to(tl.float32) * WORD + HALF_WORD))
    # As signed numbers, words are angles between -pi and pi, which rounding hurts least.
    angle = w.to(tl.int32, bitcast=True).to(tl.float32) * ANGLE
    return radius * tl.cos(angle), radius * tl.sin(angle)


@triton.jit
def normal_kernel(keys_ptr, drawn_ptr, count, GROUPS: tl.constexpr):
    """4 GROUPS of the `count` numbers of one key.

    keys_ptr  (B,), drawn_ptr (B, count)
    """
    patch = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * GROUPS
    group = first + tl.arange(0, GROUPS)
    zero = tl.zeros_like(group)
    a, b, c, d = tl.philox(tl.load(keys_ptr + patch), group, zero, zero, zero, 10)
    a, b = _box_muller(a, b)
    c, d = _box_muller(c, d)
    place = 4 * first + tl.arange(0, 4 * GROUPS)
    drawn = tl.interleave(tl.interleave(a, c), tl.interleave(b, d))
    tl.store(drawn_ptr + patch * count + place, drawn, mask=place < count)


def fill(keys: Tensor, drawn: Tensor) -> None:
    """Write the numbers of each key (B,) int64 to its row of `drawn` (B, ...), contiguous."""
    if drawn.numel():
        count = drawn[0].numel()
        blocks = triton.cdiv(count, 4 * GROUPS)
        normal_kernel[len(keys), blocks](keys, drawn, count, GROUPS=GROUPS)
