"""Actnorm: a channel-wise affine map that gives the first batch zero mean and unit variance."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pdflow.flow.bijection import Bijection


class ActNorm(Bijection):
    """y = (x - mu) / exp(sigma), Table 5, with log-determinant -N sum(sigma).

    The first training batch initialises mu and sigma; the state records that this happened.
    Evaluation never initialises: a fresh layer is the identity there.

    Paper: the table prints the log-determinant with the opposite sign. Dividing by exp(sigma)
    shrinks volumes, so the Jacobian gives -N sum(sigma).
    """

    initialised: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mu = nn.Parameter(torch.zeros(channels))
        self.sigma = nn.Parameter(torch.zeros(channels))
        self.register_buffer("initialised", torch.tensor(False))
        self._needs_check = True  # saves reading `initialised` from the device in every step
        self.register_load_state_dict_post_hook(_check_again)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def initialise(self, x: Tensor) -> None:
        """Set mu and sigma so that this batch (B, N, C) gets zero mean and unit variance."""
        flat = x.detach().reshape(-1, x.shape[-1])
        self.mu.copy_(flat.mean(0))
        self.sigma.copy_(flat.std(0, correction=0).clamp_min(1e-6).log())
        self.initialised.fill_(True)

    @property
    def is_settled(self) -> bool:
        """Whether no batch will initialise it, as far as is known without reading the device."""
        return not self.training or not self._needs_check

    def awaits_batch(self) -> bool:
        """Whether the next batch must initialise the layer; reads the device only once."""
        if self.is_settled:
            return False
        self._needs_check = False
        return not bool(self.initialised)

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """y = (x - mu) / exp(sigma); in training, the first call initialises both."""
        if self.awaits_batch():
            self.initialise(x)
        y = (x - self.mu) * torch.exp(-self.sigma)
        return y, -self.sigma.sum().expand(x.shape[:2])

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """x = y exp(sigma) + mu."""
        return y * torch.exp(self.sigma) + self.mu, self.sigma.sum().expand(y.shape[:2])


def _check_again(layer: nn.Module, _: object) -> None:
    assert isinstance(layer, ActNorm)
    layer._needs_check = True
