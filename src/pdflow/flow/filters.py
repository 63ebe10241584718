"""Disentanglement: what takes the noise out of a latent code (section 3.5)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from pdflow.kernels.mixing import affine

FILTERS = ("fbm", "lbm", "lcc")
INITS = ("paper", "authors")


class Filter(nn.Module):
    """psi: latent (B, N, D) -> filtered latent (B, N, D), Eq. (8), with its loss."""

    needs_clean_code = False
    """Whether `loss` compares with the latent code of the clean points."""

    def loss(self, filtered: Tensor, clean: Tensor | None = None) -> Tensor:
        """L_denoise, a scalar; `filtered` and `clean` are latent codes (B, N, D)."""
        raise NotImplementedError


class FixedBinaryMask(Filter):
    """FBM, Eq. (9) and (10): the last D_m channels are set to zero; nothing is learned."""

    mask: Tensor

    def __init__(self, channels: int, masked: int) -> None:
        super().__init__()
        self.register_buffer("mask", (torch.arange(channels) < channels - masked).float())

    def forward(self, latent: Tensor) -> Tensor:
        """mask * latent."""
        return latent * self.mask

    def loss(self, filtered: Tensor, clean: Tensor | None = None) -> Tensor:
        """Zero."""
        return filtered.new_zeros(())


class LearnableBinaryMask(Filter):
    """LBM, Eq. (11) and (12): a soft mask that the loss drives towards 0 or 1.

    init "paper": m itself is the parameter, drawn from U[0, 1].
    init "authors": m = 1 - exp(-theta) with theta drawn from U[0, 1].
    """

    def __init__(self, channels: int, init: str) -> None:
        super().__init__()
        self.init = init
        self.theta = nn.Parameter(torch.rand(channels))

    def mask(self) -> Tensor:
        """m (D,)."""
        return self.theta if self.init == "paper" else 1 - torch.exp(-self.theta)

    def forward(self, latent: Tensor) -> Tensor:
        """m * latent."""
        return latent * self.mask()

    def loss(self, filtered: Tensor, clean: Tensor | None = None) -> Tensor:
        """|m (1 - m)|, L1 norm."""
        m = self.mask()
        return (m * (1 - m)).abs().sum()


class LatentCodeConsistency(Filter):
    """LCC, Eq. (13) and (14): a learned linear map W pulls noisy codes to clean ones.

    init "paper": W = identity. init "authors": W random orthogonal.

    Paper: the loss is printed as a sum of norms; the mean squared error over batch, points and
    channels made its numbers. The clean code is not detached.
    """

    needs_clean_code = True

    def __init__(self, channels: int, init: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(channels))
        if init == "authors":
            nn.init.orthogonal_(self.weight)

    def forward(self, latent: Tensor) -> Tensor:
        """W z for every point, in float32: coordinates are in the code."""
        return affine(latent, self.weight.T, self.weight.new_zeros(len(self.weight)))

    def loss(self, filtered: Tensor, clean: Tensor | None = None) -> Tensor:
        """Mean squared difference to the latent code of the clean points."""
        if clean is None:
            raise ValueError("The LCC loss needs the latent code of the clean points.")
        return mse_loss(filtered, clean)


def make_filter(name: str, channels: int, masked: int, init: str) -> Filter:
    """The filter called `name` for D channels."""
    if name == "fbm":
        return FixedBinaryMask(channels, masked)
    if name == "lbm":
        return LearnableBinaryMask(channels, init)
    return LatentCodeConsistency(channels, init)
