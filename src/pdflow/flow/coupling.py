"""Coupling layers: one part of the channels is moved as the other part says."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pdflow.flow.bijection import Bijection, no_change
from pdflow.flow.units import EdgeUnit, LinearUnit


class Coupling(Bijection):
    """y = [h1, (h2 - b(h1)) exp(-s(h1))], Table 5, split into ceil(C/2) kept channels and the rest.

    The unit gives shift b, and scale s where the coupling is affine (2 groups); with 1 group it
    is additive and keeps volumes. s is clamped softly to (-clamp, clamp):

        s = (2 clamp / pi) atan(raw)

    Paper: it writes h2 exp(s) + b in the forward direction. We use the direction that made its
    numbers, in which decoding is h2 exp(s) + b; and the clamp, which it does not mention but
    does not train without.
    """

    def __init__(self, channels: int, unit: EdgeUnit | LinearUnit, clamp: float) -> None:
        super().__init__()
        self.unit = unit
        self.clamp = clamp
        self.kept = kept_channels(channels)

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Remove shift and scale; the log-determinant is -sum(s)."""
        kept, moved = x.tensor_split([self.kept], dim=-1)
        scale, shift = self._scale_and_shift(kept, context)
        if scale is None:
            return torch.cat([kept, moved - shift], -1), no_change(x)
        return torch.cat([kept, (moved - shift) * torch.exp(-scale)], -1), -scale.sum(-1)

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Apply scale and shift again."""
        kept, moved = y.tensor_split([self.kept], dim=-1)
        scale, shift = self._scale_and_shift(kept, context)
        if scale is None:
            return torch.cat([kept, moved + shift], -1), no_change(y)
        return torch.cat([kept, moved * torch.exp(scale) + shift], -1), scale.sum(-1)

    def _scale_and_shift(
        self, kept: Tensor, context: Tensor | None
    ) -> tuple[Tensor | None, Tensor]:
        groups = self.unit(kept, context)
        if len(groups) == 1:
            return None, groups[0]
        return (2 * self.clamp / math.pi) * torch.atan(groups[0]), groups[1]


def kept_channels(channels: int) -> int:
    """Channels that a coupling leaves alone: half of them, rounded up."""
    return (channels + 1) // 2
