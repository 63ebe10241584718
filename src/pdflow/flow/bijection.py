"""The contract of all invertible maps, and their composition.

A bijection maps x (B, N, C) to y (B, N, C) given a context that it does not transform: the
neighbour graph (B, N, K) of the patch, or condition features (B, N, F). It also returns the
log-determinant of its Jacobian, the summand of Eq. (5). Every log-determinant of this flow is a sum
over points, so a bijection implements the per-point terms (B, N), and the contract sums them to
(B,).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn


class Bijection(nn.Module):
    """An invertible map with a tractable Jacobian.

    Subclasses implement `transform` and `untransform`, which return per-point terms (B, N).
    """

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """y (B, N, C) and log |det dy/dx| (B,)."""
        y, terms = self.transform(x, context)
        return y, terms.sum(1)

    def inverse(self, y: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, N, C) and log |det dx/dy| (B,)."""
        x, terms = self.untransform(y, context)
        return x, terms.sum(1)

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """y (B, N, C) and the terms (B, N) that sum to log |det dy/dx|."""
        raise NotImplementedError

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (B, N, C) and the terms (B, N) that sum to log |det dx/dy|."""
        raise NotImplementedError


class Chain(Bijection):
    """Bijections one after the other, Eq. (4); their log-determinants add up, Eq. (5)."""

    def __init__(self, steps: Iterable[Bijection]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def __iter__(self) -> Iterator[Bijection]:
        return iter(self.steps)  # type: ignore[arg-type]

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """First step first."""
        total = no_change(x)
        for step in self:
            x, terms = step.transform(x, context)
            total = total + terms
        return x, total

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Last step first."""
        total = no_change(y)
        for step in reversed(list(self)):
            y, terms = step.untransform(y, context)
            total = total + terms
        return y, total


class Sigmoid(Bijection):
    """y = 1 / (1 + exp(-x)), the end of the augmentation module (supplement, section B.1)."""

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """log dy/dx = -softplus(x) - softplus(-x), summed over channels."""
        return torch.sigmoid(x), -_softplus_both(x).sum(-1)

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """x = log y - log(1 - y)."""
        x = torch.logit(y)
        return x, _softplus_both(x).sum(-1)


def no_change(x: Tensor) -> Tensor:
    """Log-determinant terms (B, N) of a map that keeps volumes."""
    return x.new_zeros(x.shape[:2])


def _softplus_both(x: Tensor) -> Tensor:
    return nn.functional.softplus(x) + nn.functional.softplus(-x)
