"""One block of the flow: permutation, actnorm, coupling, reverse, coupling (Fig. 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.flow.actnorm import ActNorm
from pdflow.flow.bijection import Bijection, Chain, no_change
from pdflow.flow.coupling import Coupling
from pdflow.flow.permutation import InvertibleLinear, Reverse
from pdflow.kernels.affine import affine


class Block(Chain):
    """The chain of its steps, in fewer passes over the points.

    Permutation and actnorm are one affine map, and the couplings turn the channels around
    themselves.

    mixing  a linear map of the channels that is the same for all points
    """

    def __init__(self, mixing: Bijection, norm: ActNorm, first: Coupling, second: Coupling) -> None:
        super().__init__([mixing, norm, first, Reverse(), second])

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """First step first."""
        mixing, norm, first, second = self._parts()
        if norm.awaits_batch():
            norm.initialise(mixing.transform(x, context)[0])
        shrink = torch.exp(-norm.sigma)
        x = affine(x, _matrix(mixing, x) * shrink, -norm.mu * shrink)
        total = self._mixing_terms(x)
        x, terms = first.couple(x, context, total)
        x, terms = second.couple(x, context, terms, flip_in=True)
        return x, no_change(x) if terms is None else terms

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Last step first."""
        mixing, norm, first, second = self._parts()
        total = -self._mixing_terms(y)
        y, terms = second.couple(y, context, total, inverse=True, flip_out=True)
        y, terms = first.couple(y, context, terms, inverse=True)
        back = _matrix(mixing, y, inverse=True)
        x = affine(y, torch.exp(norm.sigma)[:, None] * back, norm.mu @ back)
        return x, no_change(x) if terms is None else terms

    def _parts(self) -> tuple[Bijection, ActNorm, Coupling, Coupling]:
        mixing, norm, first, _, second = self
        assert isinstance(norm, ActNorm)
        assert isinstance(first, Coupling)
        assert isinstance(second, Coupling)
        return mixing, norm, first, second

    def _mixing_terms(self, x: Tensor) -> Tensor:
        """Log-determinant terms (B, N) of permutation and actnorm."""
        mixing, norm, _, _ = self._parts()
        change = -norm.sigma.sum()
        if isinstance(mixing, InvertibleLinear):
            change = mixing.log_det() + change
        return change.expand(x.shape[:2])


def _matrix(mixing: Bijection, like: Tensor, inverse: bool = False) -> Tensor:
    """A (C, C), so that the map of points like (B, N, C) is x @ A, or that of its inverse."""
    if isinstance(mixing, InvertibleLinear):
        return (mixing.inverse_weight() if inverse else mixing.weight()).T
    identity = torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)[None]
    step = mixing.untransform if inverse else mixing.transform
    return step(identity, None)[0][0]
