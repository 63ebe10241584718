"""Coupling layers: one part of the channels is moved as the other part says."""

from __future__ import annotations

from torch import Tensor

from pdflow.flow.bijection import Bijection, no_change
from pdflow.flow.units import EdgeUnit, LinearUnit
from pdflow.kernels.coupling import couple
from pdflow.kernels.coupling.direction import FORWARD, INVERSE, Direction


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
        y, terms = self.couple(x, context, None)
        return y, no_change(x) if terms is None else terms

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Apply scale and shift again."""
        x, terms = self.couple(y, context, None, INVERSE)
        return x, no_change(y) if terms is None else terms

    def couple(
        self,
        x: Tensor,
        context: Tensor | None,
        total: Tensor | None,
        direction: Direction = FORWARD,
    ) -> tuple[Tensor, Tensor | None]:
        """Transform x (B, N, C), forward or back, and add to the terms `total` (B, N).

        A direction that flips also does what a `Reverse` before or after this layer would do.
        """
        features = None
        if isinstance(self.unit, EdgeUnit):
            features, x = self.unit.pool(x, context, flip=direction.flip_in)
            layers = [self.unit.third.layer]
        else:
            layers = self.unit.stack
        return couple(
            x,
            layers,
            self.kept,
            self.clamp,
            features=features,
            total=total,
            direction=direction,
        )


def kept_channels(channels: int) -> int:
    """Channels that a coupling leaves alone: half of them, rounded up."""
    return (channels + 1) // 2
