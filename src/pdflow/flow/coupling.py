"""Coupling layers: a network of one part of the channels shifts and scales the other part."""

from __future__ import annotations

from torch import Tensor

from pdflow.flow.bijection import Bijection, no_change
from pdflow.flow.units import EdgeUnit, LinearUnit
from pdflow.kernels.coupling import couple
from pdflow.kernels.coupling.direction import FORWARD, INVERSE, Direction


class Coupling(Bijection):
    """y = [h1, (h2 - b(h1)) exp(-s(h1))], Table 5, with log-determinant -sum(s).

    h1 is the first ceil(C/2) channels, h2 the rest. The unit gives the shift b and, in an affine
    coupling (2 groups), the scale s. An additive coupling (1 group) has no scale and keeps volumes.
    s is softly clamped to (-clamp, clamp):

        s = (2 clamp / pi) atan(raw)

    Paper: the table prints h2 exp(s) + b in the forward direction. We use the direction that made
    the paper's numbers, in which decoding is h2 exp(s) + b. The paper does not mention the clamp,
    but training needs it.
    """

    def __init__(self, channels: int, unit: EdgeUnit | LinearUnit, clamp: float) -> None:
        super().__init__()
        self.unit = unit
        self.clamp = clamp
        self.kept = kept_channels(channels)

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """y = [h1, (h2 - b) exp(-s)]; the terms are -s, summed over channels."""
        y, terms = self.couple(x, context, None)
        return y, no_change(x) if terms is None else terms

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """x = [h1, h2 exp(s) + b]; the terms are s, summed over channels."""
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
    """Channels that a coupling keeps: half of them, rounded up."""
    return (channels + 1) // 2
