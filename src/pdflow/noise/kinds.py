"""The kinds of noise, one entry each: used by `pdflow noise`, training, recipes and docs alike.

Offsets are drawn point by point, independently. `s` stands for their size: the noise level times
the radius R of the clean cloud's bounding sphere (`pdflow.geometry.unit_sphere`). Draws are at
s = 1: with numpy for clouds, with torch for batches of patches. Neither is imported with this
module, so that `pdflow --help` answers at once.

The kinds are those of the supplements of ScoreDenoise (Luo and Hu, ICCV 2021) and of the paper,
with parameters as in their public code: github.com/luost26/score-denoise, utils/transforms.py,
and github.com/unknownue/pdflow, eval/plot/noise. The simulated scanner is in
`pdflow.noise.lidar`, because it needs a surface rather than points.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from pdflow.geometry.arrays import FloatArray

ANISOTROPIC_COVARIANCE = ((1.0, -0.5, -0.25), (-0.5, 1.0, -0.25), (-0.25, -0.25, 1.0))
"""Covariance of the anisotropic noise at s = 1."""

ANISOTROPIC_ROOT = (
    (1.0, 0.0, 0.0),
    (-0.5, math.sqrt(0.75), 0.0),
    (-0.25, -0.375 / math.sqrt(0.75), math.sqrt(0.75)),
)
"""L with L L' = that covariance."""

DISCRETE_PROBABILITY = 0.1
"""Probability of each of the six offsets of the discrete noise."""


class NoiseKind(ABC):
    """A distribution of offsets.

    name         what commands and recipes call it
    description  one line: the offset of a point
    spread       standard deviation at s = 1: root of the mean over the axes
    """

    name: ClassVar[str]
    description: ClassVar[str]
    spread: ClassVar[float]

    @abstractmethod
    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Offsets (count, 3) at s = 1."""

    @abstractmethod
    def draw_tensor(
        self, shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
    ) -> Tensor:
        """Offsets (B, N, 3) at s = 1 for `shape` (B, N), made on the device."""


class _Gaussian(NoiseKind):
    name = "gaussian"
    description = "normal, standard deviation s along each axis: N(0, s^2 I)"
    spread = 1.0

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        return rng.standard_normal((count, 3))

    def draw_tensor(
        self, shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
    ) -> Tensor:
        import torch

        return torch.randn(*shape, 3, generator=generator, device=device)


class _Anisotropic(_Gaussian):
    name = "anisotropic"
    description = (
        "normal, standard deviation s along each axis, axes correlated: N(0, s^2 S) with "
        "S = [[1, -1/2, -1/4], [-1/2, 1, -1/4], [-1/4, -1/4, 1]]"
    )

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        import numpy as np

        root = np.linalg.cholesky(np.array(ANISOTROPIC_COVARIANCE))
        return np.asarray(super().draw(count, rng) @ root.T)

    def draw_tensor(
        self, shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
    ) -> Tensor:
        import torch

        x, y, z = super().draw_tensor(shape, device, generator).unbind(-1)
        return torch.stack([a * x + b * y + c * z for a, b, c in ANISOTROPIC_ROOT], -1)


class _Unidirectional(NoiseKind):
    name = "unidirectional"
    description = "normal along x only, standard deviation s: (t, 0, 0), t from N(0, s^2)"
    spread = math.sqrt(1 / 3)

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        import numpy as np

        return np.asarray(rng.standard_normal((count, 1)) * [1.0, 0.0, 0.0])

    def draw_tensor(
        self, shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
    ) -> Tensor:
        import torch

        along = torch.randn(shape, generator=generator, device=device)
        return torch.stack([along, torch.zeros_like(along), torch.zeros_like(along)], -1)


class _Uniform(NoiseKind):
    name = "uniform"
    description = "equally likely anywhere in a ball of radius s: density 3 / (4 pi s^3)"
    spread = math.sqrt(1 / 5)

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        import numpy as np

        direction = rng.standard_normal((count, 3))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return np.asarray(direction * np.cbrt(rng.random((count, 1))))

    def draw_tensor(
        self, shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
    ) -> Tensor:
        import torch

        normal = torch.randn(*shape, 3, generator=generator, device=device)
        direction = torch.nn.functional.normalize(normal, dim=-1)
        return direction * torch.rand(*shape, 1, generator=generator, device=device) ** (1 / 3)


class _Discrete(NoiseKind):
    name = "discrete"
    description = "s along one of the six half axes, with probability 0.1 each; else none"
    spread = math.sqrt(1 / 5)

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        import numpy as np

        offsets = np.concatenate([np.eye(3), -np.eye(3), np.zeros((1, 3))])
        probabilities = [DISCRETE_PROBABILITY] * 6 + [1 - 6 * DISCRETE_PROBABILITY]
        return offsets[rng.choice(len(offsets), size=count, p=probabilities)]

    def draw_tensor(
        self, shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
    ) -> Tensor:
        import torch

        tenth = torch.randint(10, shape, generator=generator, device=device)[..., None]
        axis = torch.arange(3, device=device)
        return (tenth == axis).float() - (tenth == axis + 3).float()


class _Laplace(NoiseKind):
    name = "laplace"
    description = "Laplace along each axis, scale s: density exp(-abs(t) / s) / (2 s)"
    spread = math.sqrt(2)

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        return rng.laplace(size=(count, 3))

    def draw_tensor(
        self, shape: tuple[int, int], device: torch.device, generator: torch.Generator | None
    ) -> Tensor:
        import torch

        u = torch.rand(*shape, 3, generator=generator, device=device) - 0.5
        # The smallest u, which does come up, would be infinitely far away.
        return -u.sign() * torch.log((1 - 2 * u.abs()).clamp_min(2.0**-24))


KINDS: dict[str, NoiseKind] = {
    kind.name: kind
    for kind in (
        _Gaussian(),
        _Anisotropic(),
        _Unidirectional(),
        _Uniform(),
        _Discrete(),
        _Laplace(),
    )
}
"""Every kind by its name."""
