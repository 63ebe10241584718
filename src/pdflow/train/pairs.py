"""Pairs of overlapping patches: the same noisy points, cut around two seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pdflow.train.compute.rows import take_rows
from pdflow.train.patches import PatchCut, cut_patches

SHIFT = 1 / 3
"""How far apart the two seeds are, in patch radii."""


@dataclass(frozen=True)
class PatchPairs:
    """A second patch for each patch of a batch, and which of its points are in both.

    noisy   (B, N, 3) the second patches, each in its own frame
    rows    (B, N) row of the same point in the first patch, or -1
    scale   (B,), offset (B, 3): x * scale + offset maps the second frame to the first
    """

    noisy: Tensor
    rows: Tensor
    scale: Tensor
    offset: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> PatchPairs:
        """The pairs with every tensor changed by the same function."""
        return PatchPairs(*map(change, (self.noisy, self.rows, self.scale, self.offset)))

    def from_patch(self, first: int) -> PatchPairs:
        """The same pairs, without common points in patches before number `first`."""
        patches = torch.arange(len(self.rows), device=self.rows.device)[:, None]
        return replace(self, rows=self.rows.where(patches >= first, -1))

    def sq_disagreement(self, first: Tensor, second: Tensor) -> Tensor:
        """(B, N): squared distance between both predictions of the common points.

        first, second  (B, N, 3) predictions, each in its own frame
        returns        distances in the first frame, by rows of the second; 0 at other points
        """
        placed = second * self.scale[:, None, None] + self.offset[:, None]
        same = take_rows(first, self.rows.clamp_min(0))
        return (placed - same).square().sum(-1).where(self.rows >= 0, 0.0)


def cut_pairs(
    noisy: Tensor, sought: Tensor, first: PatchCut, radius: float | None, centred: bool
) -> PatchPairs:
    """Cut second patches of the same size from the surroundings of the first ones.

    noisy    (B, S, 3) surroundings; S should be a little more than (1 + SHIFT)^2 N
    sought   (B, S, 3) surroundings that patches are cut from: `noisy`, or the clean ones
    radius   None keeps the scale; a number scales every patch to that radius
    centred  whether the seed becomes the origin
    """
    batch, count = first.rows.shape
    # On a surface, a share SHIFT of the radius holds a share SHIFT^2 of the points.
    seeds = take_rows(sought, first.rows[:, round(SHIFT**2 * count), None])
    second = cut_patches(sought, seeds, count, radius, centred)
    places = torch.full(sought.shape[:2], -1, device=sought.device)
    order = torch.arange(count, device=sought.device).expand(batch, -1)
    return PatchPairs(
        second.apply(noisy),
        places.scatter(1, first.rows, order).gather(1, second.rows),
        (first.scale / second.scale)[:, 0, 0],
        ((second.origin - first.origin) * first.scale)[:, 0],
    )
