"""Standard normal numbers by place: number i of a key depends on the key and i alone.

Philox 4x32 with 10 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") makes
four random words from a key and a counter, the number of a group of four. Box and Muller's method
makes two normal numbers from two words v, w: the radius sqrt(-2 ln u) and the angle 2 pi w / 2^32,
where u = v / 2^32 + 2^-33 lies in (0, 1], all in float32.

Words are the same bits on every device; normal numbers differ by the rounding of logarithm, sine
and cosine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pdflow.kernels import runs_triton

WORD = 2.0**-32
"""A random word times WORD, plus half of it, lies in (0, 1]."""

ANGLE = 2 * math.pi * WORD
"""Radians of a step of a random word, so that all words make one turn."""


@torch.no_grad()
def normal(keys: Tensor, shape: Sequence[int]) -> Tensor:
    """Standard normal numbers (B, *shape), float32, on the device of their keys (B,) int64."""
    drawn = torch.empty(len(keys), *shape, dtype=torch.float32, device=keys.device)
    if runs_triton(drawn):
        from pdflow.kernels.normal import triton_normal

        triton_normal.fill(keys, drawn)
        return drawn
    from pdflow.kernels.normal import cpu

    on_host = torch.empty_like(drawn, device="cpu")
    for key, part in zip(keys.cpu().numpy().view(np.uint64), on_host, strict=True):
        cpu.fill(key, part.view(-1).numpy())
    return on_host.to(keys.device)
