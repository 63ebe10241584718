"""Patches of clouds after a first pass, as a second pass finds them."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.train.data import Batch, Nearest, product, random_rotations


class PassedPool:
    """Surroundings (S, up to 2 N, 3) of seeds in clouds that went through a network once.

    moved  rows sorted by their distance to the seed, which is the first
    clean  the same rows before the noise
    sigma  (S,) the noise that was added to their clouds
    """

    def __init__(self, moved: Tensor, clean: Tensor, sigma: Tensor, patch_points: int) -> None:
        self.moved, self.clean, self.sigma = moved, clean, sigma
        self.patch_points = patch_points

    def sample(self, batch: int, radius: float | None = None, centred: bool = False) -> Batch:
        """A batch of passed patches, randomly turned, and the clean ones.

        radius, centred  as in `PatchPool.sample`
        """
        device = self.moved.device
        picks = torch.randint(len(self.moved), (batch,), device=device)
        rotation = random_rotations(batch, device)
        moved, clean = (product(rows[picks], rotation) for rows in (self.moved, self.clean))
        patch = Nearest.to_first(moved, self.patch_points)
        return patch.cut(moved, clean, self.sigma[picks], radius, centred)
