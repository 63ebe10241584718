"""Training patches: clean surroundings are cut once, then noised, rotated and cut per step.

Everything runs on the device, so that no step waits for a worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

SURROUNDINGS = 2
"""Points kept around a seed, in patches: noise may bring any of them into the patch."""


@dataclass(frozen=True)
class Batch:
    """Noisy patches (B, N, 3) in the network's frame, the clean ones row by row, and the
    noise's standard deviation (B,) in that frame."""

    noisy: Tensor
    clean: Tensor
    sigma: Tensor

    def to(self, device: str) -> Batch:
        """The batch on a device."""
        return Batch(self.noisy.to(device), self.clean.to(device), self.sigma.to(device))


class PatchPool:
    """Clean surroundings (S, 2 N, 3) of random seeds, in the unit-sphere frame of their clouds."""

    def __init__(self, surroundings: Tensor, patch_points: int) -> None:
        self.surroundings = surroundings
        self.patch_points = patch_points

    @staticmethod
    def cut(
        clouds: Iterable[NDArray[np.float64]],
        seeds: int,
        patch_points: int,
        generator: torch.Generator,
    ) -> PatchPool:
        """Cut `seeds` surroundings from each cloud (M, 3), which is in the unit sphere."""
        parts = []
        for cloud in clouds:
            points = torch.from_numpy(cloud).float().to(generator.device)
            picks = torch.randint(
                len(points), (seeds,), generator=generator, device=generator.device
            )
            for some in picks.split(256):
                distances = torch.cdist(points[some], points)
                size = min(SURROUNDINGS * patch_points, len(points))
                rows = distances.topk(size, largest=False).indices
                parts.append(points[rows])
        return PatchPool(torch.cat(parts), patch_points)

    def sample(
        self,
        batch: int,
        levels: tuple[float, float],
        scales: tuple[float, float] = (1.0, 1.0),
        radius: float | None = None,
        centred: bool = False,
        generator: torch.Generator | None = None,
    ) -> Batch:
        """A batch of patches cut from noisy surroundings around their noisy seed.

        levels   smallest and largest noise, relative to the bounding sphere
        scales   smallest and largest random scale, applied before the noise
        radius   None keeps the unit-sphere scale; a number scales every patch to that radius
        centred  whether the noisy seed becomes the origin
        """
        device = self.surroundings.device
        picks = torch.randint(len(self.surroundings), (batch,), generator=generator, device=device)
        scale = _uniform(scales, batch, device, generator)
        rotation = random_rotations(batch, device, generator) * scale[:, None, None]
        clean = _rotated(self.surroundings[picks], rotation)
        sigma = _uniform(levels, batch, device, generator)
        noise = torch.randn(clean.shape, generator=generator, device=device)
        noisy = clean + sigma[:, None, None] * noise
        seed = noisy[:, :1]
        sq_distances = (noisy - seed).square().sum(-1)
        nearest, rows = sq_distances.topk(self.patch_points, largest=False)
        rows = rows[..., None].expand(-1, -1, 3)
        noisy, clean = noisy.gather(1, rows), clean.gather(1, rows)
        if centred:
            noisy, clean = noisy - seed, clean - seed
        if radius is not None:
            scale = radius / nearest[:, -1].sqrt()
            noisy, clean = noisy * scale[:, None, None], clean * scale[:, None, None]
            sigma = sigma * scale
        return Batch(noisy, clean, sigma)


def _rotated(points: Tensor, rotations: Tensor) -> Tensor:
    """points (B, N, 3) times rotations (B, 3, 3), in float32 whatever products are rounded to."""
    return (points[..., None] * rotations[:, None]).sum(-2)


def _uniform(
    bounds: tuple[float, float], count: int, device: torch.device, generator: torch.Generator | None
) -> Tensor:
    low, high = bounds
    return low + (high - low) * torch.rand(count, generator=generator, device=device)


def random_rotations(
    count: int, device: torch.device, generator: torch.Generator | None = None
) -> Tensor:
    """Uniform rotations (count, 3, 3), from random unit quaternions."""
    quaternions = torch.randn(count, 4, generator=generator, device=device)
    w, x, y, z = normalize(quaternions, dim=1).unbind(1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)
