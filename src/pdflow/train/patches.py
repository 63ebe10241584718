"""Patches cut from surroundings: their points, their frame, and how much each point counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pdflow.train.compute.rows import take_rows


@dataclass(frozen=True)
class PatchCut:
    """The points of patches, and the map x -> (x - origin) * scale into the network's frame.

    rows    (B, N) rows of the surroundings, nearest to the seed first
    origin  (B, 1, 3)
    scale   (B, 1, 1)
    """

    rows: Tensor
    origin: Tensor
    scale: Tensor

    def apply(self, surroundings: Tensor) -> Tensor:
        """Patches (B, N, 3) in the network's frame from surroundings (B, S, 3)."""
        return (take_rows(surroundings, self.rows) - self.origin) * self.scale


def cut_patches(
    surroundings: Tensor, seeds: Tensor, count: int, radius: float | None, centred: bool
) -> PatchCut:
    """Cut the `count` points of surroundings (B, S, 3) that are nearest to seeds (B, 1, 3).

    radius   None keeps the scale; a number scales every patch to that radius
    centred  whether the seed becomes the origin
    """
    sq_distances, rows = (surroundings - seeds).square().sum(-1).topk(count, largest=False)
    scale = torch.ones_like(seeds[..., :1])
    if radius is not None:
        scale = radius / sq_distances[:, -1:, None].sqrt()
    return PatchCut(rows, seeds if centred else torch.zeros_like(seeds), scale)


def patch_weights(points: Tensor, seeds: Tensor, sharpness: float) -> Tensor:
    """(B, N): how much points (B, N, 3) count, as when patches are blended.

    seeds  (B, 1, 3) where the seeds were when the patches were cut

    The weight is exp(-sharpness d^2 / r^2) at distance d from the seed of a patch of radius r.
    """
    sq_distances = (points - seeds).square().sum(-1)
    sq_radii = sq_distances.amax(1, keepdim=True).clamp_min(torch.finfo(points.dtype).tiny)
    return torch.exp(-sharpness * sq_distances / sq_radii)
