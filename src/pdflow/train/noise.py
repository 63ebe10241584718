"""The noises of `pdflow.noise.models`, drawn for a batch of patches on its device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

Draw = Callable[[tuple[int, int], torch.device, "torch.Generator | None"], Tensor]
"""((B, N), device, generator) -> offsets (B, N, 3) at s = 1."""

_ANISOTROPIC_ROOT = (
    (1.0, 0.0, 0.0),
    (-0.5, math.sqrt(0.75), 0.0),
    (-0.25, -0.375 / math.sqrt(0.75), math.sqrt(0.75)),
)
"""L with L L' = the covariance of the anisotropic noise."""


def draw_noise(
    kinds: Sequence[str],
    shape: tuple[int, int],
    device: torch.device,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Offsets (B, N, 3) at s = 1 for `shape` (B, N), each patch with one of `kinds`.

    The second result (B,) is their standard deviation, the root of the mean over the axes. All
    kinds are drawn for all patches and one is picked, and nothing is copied to the device, so
    that a step can be recorded.
    """
    patches = shape[0]
    offsets = torch.stack([NOISES[kind](shape, device, generator) for kind in kinds])
    spreads = torch.stack([torch.full((patches,), SPREADS[kind], device=device) for kind in kinds])
    chosen = torch.randint(len(kinds), (patches,), generator=generator, device=device)
    rows = torch.arange(patches, device=device)
    return offsets[chosen, rows], spreads[chosen, rows]


def _gaussian(
    shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
) -> Tensor:
    return torch.randn(*shape, 3, generator=generator, device=device)


def _anisotropic(
    shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
) -> Tensor:
    x, y, z = _gaussian(shape, device, generator).unbind(-1)
    return torch.stack([a * x + b * y + c * z for a, b, c in _ANISOTROPIC_ROOT], -1)


def _unidirectional(
    shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
) -> Tensor:
    along = torch.randn(shape, generator=generator, device=device)
    return torch.stack([along, torch.zeros_like(along), torch.zeros_like(along)], -1)


def _uniform(
    shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
) -> Tensor:
    direction = normalize(_gaussian(shape, device, generator), dim=-1)
    return direction * torch.rand(*shape, 1, generator=generator, device=device) ** (1 / 3)


def _discrete(
    shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
) -> Tensor:
    tenth = torch.randint(10, shape, generator=generator, device=device)[..., None]
    axis = torch.arange(3, device=device)
    return (tenth == axis).float() - (tenth == axis + 3).float()


def _laplace(
    shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
) -> Tensor:
    u = torch.rand(*shape, 3, generator=generator, device=device) - 0.5
    # The smallest u, which does come up, would be infinitely far away.
    return -u.sign() * torch.log((1 - 2 * u.abs()).clamp_min(2.0**-24))


NOISES: dict[str, Draw] = {
    "gaussian": _gaussian,
    "anisotropic": _anisotropic,
    "unidirectional": _unidirectional,
    "uniform": _uniform,
    "discrete": _discrete,
    "laplace": _laplace,
}

SPREADS = {
    "gaussian": 1.0,
    "anisotropic": 1.0,
    "unidirectional": math.sqrt(1 / 3),
    "uniform": math.sqrt(1 / 5),
    "discrete": math.sqrt(1 / 5),
    "laplace": math.sqrt(2),
}
"""Standard deviation of every kind at s = 1, the root of the mean over the axes."""
