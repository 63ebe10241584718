"""Pairs of overlapping patches: the same noisy points, cut around two seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pdflow.train.patches import PatchCut, cut_patches, take_rows

SHIFT = 1 / 3
"""How far apart the two seeds are, in patch radii."""


@dataclass(frozen=True)
class PatchPairs:
    """For each patch of a batch a second one, and which of its points are in both.

    noisy   (B, N, 3) the second patches, each in its own frame
    rows    (B, N) the row of the first patch that is the same point; -1 where there is none
    scale   (B,), offset (B, 3): x scale + offset brings the second patch into the first's frame
    """

    noisy: Tensor
    rows: Tensor
    scale: Tensor
    offset: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> PatchPairs:
        """The pairs with every tensor changed by the same function."""
        return PatchPairs(*map(change, (self.noisy, self.rows, self.scale, self.offset)))

    def from_patch(self, first: int) -> PatchPairs:
        """The same, without points in common in the patches before number `first`."""
        patches = torch.arange(len(self.rows), device=self.rows.device)[:, None]
        return replace(self, rows=self.rows.where(patches >= first, -1))

    def sq_disagreement(self, first: Tensor, second: Tensor) -> Tensor:
        """(B, N): squared distance between what both patches became, at points in common.

        first, second  (B, N, 3), each in its own frame; it is measured in that of the first
        returns        by the rows of the second; 0 at points that only it has
        """
        placed = second * self.scale[:, None, None] + self.offset[:, None]
        same = first.gather(1, self.rows.clamp_min(0)[..., None].expand_as(second))
        return (placed - same).square().sum(-1).where(self.rows >= 0, 0.0)


def cut_pairs(
    noisy: Tensor, sought: Tensor, first: PatchCut, radius: float | None, centred: bool
) -> PatchPairs:
    """Cut second patches of as many points from the surroundings of the first ones.

    noisy    (B, S, 3) surroundings; a little more than (1 + SHIFT)^2 N points fill a second patch
    sought   (B, S, 3) where nearest points are sought: `noisy`, or the clean surroundings
    radius   None keeps the scale; a number scales every patch to that radius
    centred  whether the seed becomes the origin
    """
    batch, count = first.rows.shape
    # The points of a surface within a share of the radius are the share's square of them all.
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
