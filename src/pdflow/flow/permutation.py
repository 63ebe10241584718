"""Permutation layers: they mix channels, so that the couplings transform all of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pdflow.flow.bijection import Bijection, no_change


class Permutation(Bijection):
    """Channels in another, fixed order; keeps volumes."""

    order: Tensor
    back: Tensor

    def __init__(self, order: Tensor) -> None:
        super().__init__()
        self.register_buffer("order", order)
        self.register_buffer("back", torch.argsort(order))

    @staticmethod
    def random(channels: int) -> Permutation:
        """An order that is drawn once and saved with the weights."""
        return Permutation(torch.randperm(channels))

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Reorder channels."""
        return x[..., self.order], no_change(x)

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Put channels back."""
        return y[..., self.back], no_change(y)


class Reverse(Bijection):
    """Last channel first; keeps volumes."""

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Reverse the order of channels."""
        return x.flip(-1), no_change(x)

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Reverse it again."""
        return y.flip(-1), no_change(y)


class InvertibleLinear(Bijection):
    """Invertible 1x1 convolution y = W x, Table 5, with log-determinant N log |det W|.

    W = P L U with a fixed permutation P. One matrix `lu` (C, C) holds the factors: the unit lower
    triangular L below its diagonal, U above, and log |diag U| on it. The signs of diag U are fixed.
    So W never becomes singular, its log-determinant is a sum, its inverse takes two triangular
    solves, and it has the C^2 parameters of a dense W.

    W starts random orthogonal, or as the identity.

    Paper: W is dense there; `set_weight` imports any dense W.
    """

    signs: Tensor
    order: Tensor

    def __init__(self, channels: int, identity: bool = False) -> None:
        super().__init__()
        self.lu = nn.Parameter(torch.empty(channels, channels))
        self.register_buffer("signs", torch.empty(channels))
        self.register_buffer("order", torch.arange(channels))
        start = torch.eye(channels)
        self.set_weight(start if identity else nn.init.orthogonal_(start))

    @torch.no_grad()
    def set_weight(self, weight: Tensor) -> None:
        """Factorise a dense matrix (C, C), so that y = x @ weight.T."""
        permutation, lower, upper = torch.linalg.lu(weight.double())
        diagonal = upper.diagonal()
        packed = lower.tril(-1) + upper.triu(1) + torch.diag(diagonal.abs().log())
        self.lu.copy_(packed)
        self.signs.copy_(diagonal.sign())
        self.order.copy_(permutation.argmax(0))

    def factors(self) -> tuple[Tensor, Tensor]:
        """L (C, C) and U (C, C)."""
        diagonal = self.signs * torch.exp(self.lu.diagonal())
        lower = self.lu.tril(-1) + torch.diag(torch.ones_like(diagonal))
        return lower, self.lu.triu(1) + torch.diag(diagonal)

    def weight(self) -> Tensor:
        """The dense matrix (C, C): row order[i] of W is row i of L U."""
        lower, upper = self.factors()
        product = (lower.double() @ upper.double()).to(lower.dtype)  # fp32 might be rounded to tf32
        return torch.empty_like(lower).index_copy(0, self.order, product)

    def inverse_weight(self) -> Tensor:
        """The inverse of the dense matrix (C, C), by two triangular solves."""
        lower, upper = self.factors()
        identity = torch.eye(len(lower), dtype=lower.dtype, device=lower.device)
        half = torch.linalg.solve_triangular(
            lower, identity[self.order], upper=False, unitriangular=True
        )
        inverse: Tensor = torch.linalg.solve_triangular(upper, half, upper=True)
        return inverse

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """y = W x for every point."""
        return x @ self.weight().T, self.log_det().expand(x.shape[:2])

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """x = W^-1 y for every point."""
        return y @ self.inverse_weight().T, -self.log_det().expand(y.shape[:2])

    def log_det(self) -> Tensor:
        """Sum of log |diag U|."""
        return self.lu.diagonal().sum()
