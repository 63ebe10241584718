"""Disentanglement: what takes the noise out of a latent code (section 3.5).

A filter brings everything that training and backends need of it, so that a new one is one class:

    @register_filter("half")
    def half(channels: int, masked: int, init: str) -> Filter:
        return Half(channels)

From then on `FlowConfig(filter="half")` is a network that trains, saves, loads and denoises.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from pdflow.errors import PdflowError
from pdflow.kernels.mixing import affine

INITS = ("paper", "authors")

LEEWAY = 0.02
"""How far a learnable mask starts from 0 and 1, where the slope of its own loss would hold it."""


class Filter(nn.Module):
    """psi: latent (B, N, D) -> filtered latent (B, N, D), Eq. (8), with its loss."""

    needs_clean_code = False
    """Whether `loss` compares with the latent code of the clean points."""

    def loss(self, filtered: Tensor, clean: Tensor | None = None) -> Tensor:
        """L_denoise, a scalar; `filtered` and `clean` are latent codes (B, N, D)."""
        raise NotImplementedError

    def channel_map(self) -> Tensor | None:
        """The filter as a linear map of channels, for backends that do not run modules.

        A mask (D,) stands for z * mask, a matrix M (D, D) for z @ M. None means that the filter
        is not linear, and that a backend has to call the module itself.
        """
        return None

    def start_from(self, other: Filter) -> None:
        """Take over what another filter of as many channels does, as nearly as this one can."""
        if type(other) is not type(self):
            raise PdflowError(
                f"The filter {type(self).__name__} cannot go on from {type(other).__name__}: "
                "start from weights with the same filter."
            )
        self.load_state_dict(other.state_dict())


FilterFactory = Callable[[int, int, str], Filter]
"""(D, D_m, init) -> filter: the channels of a code, `masked_dims` and `filter_init`."""

FILTERS: dict[str, FilterFactory] = {}
"""Every filter by the name that configs and recipes use."""


def register_filter(name: str) -> Callable[[FilterFactory], FilterFactory]:
    """Make a filter known under a name that no other has."""

    def register(factory: FilterFactory) -> FilterFactory:
        if name in FILTERS:
            raise PdflowError(f"There is a filter {name!r} already: choose another name.")
        FILTERS[name] = factory
        return factory

    return register


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

    def channel_map(self) -> Tensor:
        """The mask (D,)."""
        return self.mask

    def start_from(self, other: Filter) -> None:
        """Nothing changes: the config says what is masked."""


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

    def channel_map(self) -> Tensor:
        """m (D,)."""
        return self.mask()

    @torch.no_grad()
    def start_from(self, other: Filter) -> None:
        """Start as another mask; where that is exactly 0 or 1, LEEWAY away from it."""
        mask = other.channel_map()
        if mask is None or mask.ndim != 1:
            raise PdflowError(
                f"A mask cannot go on from the filter {type(other).__name__}, which is none: "
                "start from weights with the filter fbm or lbm."
            )
        binary = (mask == 0) | (mask == 1)
        mask = torch.where(binary, mask.clamp(LEEWAY, 1 - LEEWAY), mask)
        self.theta.copy_(mask if self.init == "paper" else -torch.log1p(-mask))


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

    def channel_map(self) -> Tensor:
        """W' (D, D)."""
        return self.weight.T

    @torch.no_grad()
    def start_from(self, other: Filter) -> None:
        """Start as any linear filter; a mask becomes a diagonal W."""
        channels = other.channel_map()
        if channels is None:
            raise PdflowError(
                f"LCC cannot go on from the filter {type(other).__name__}, which is not linear: "
                "start from weights with the filter lcc, lbm or fbm."
            )
        self.weight.copy_(channels.T if channels.ndim == 2 else channels.diag())


@register_filter("fbm")
def _fbm(channels: int, masked: int, init: str) -> Filter:
    return FixedBinaryMask(channels, masked)


@register_filter("lbm")
def _lbm(channels: int, masked: int, init: str) -> Filter:
    return LearnableBinaryMask(channels, init)


@register_filter("lcc")
def _lcc(channels: int, masked: int, init: str) -> Filter:
    return LatentCodeConsistency(channels, init)
