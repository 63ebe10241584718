"""Pairs of overlapping patches: the same noisy points, cut around two seeds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

SHIFT = 1 / 3
"""How far apart the two centres are, in patch radii."""


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

    def __getitem__(self, part: slice) -> PatchPairs:
        return PatchPairs(self.noisy[part], self.rows[part], self.scale[part], self.offset[part])

    def to(self, device: str) -> PatchPairs:
        """The pairs on a device."""
        tensors = (self.noisy, self.rows, self.scale, self.offset)
        return PatchPairs(*(tensor.to(device) for tensor in tensors))

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
    noisy: Tensor, sought: Tensor, rows: Tensor, radius: float | None, centred: bool
) -> PatchPairs:
    """Cut a second patch of as many points from surroundings whose first patch is `rows`.

    noisy    (B, S, 3) surroundings; a little more than (1 + SHIFT)^2 N points fill a second patch
    sought   (B, S, 3) where nearest points are sought: `noisy`, or the clean surroundings
    rows     (B, N) of the first patch, nearest to its seed first, which is the centre
    radius   None keeps the scale; a number scales every patch to that radius
    centred  whether the seed becomes the origin
    """
    batch, count = rows.shape
    # The points of a surface within a share of the radius are the share's square of them all.
    seed = _at(sought, rows[:, round(SHIFT**2 * count), None])
    there = (sought - seed).square().sum(-1).topk(count, largest=False).indices
    places = torch.full(sought.shape[:2], -1, device=rows.device)
    places = places.scatter(1, rows, torch.arange(count, device=rows.device).expand(batch, -1))
    first_origin, first_scale = _frame(sought, rows, radius, centred)
    origin, scale = _frame(sought, there, radius, centred)
    return PatchPairs(
        (_at(noisy, there) - origin) * scale,
        places.gather(1, there),
        (first_scale / scale)[:, 0, 0],
        ((origin - first_origin) * first_scale)[:, 0],
    )


def _at(points: Tensor, rows: Tensor) -> Tensor:
    """Rows (B, N) of points (B, S, 3): (B, N, 3)."""
    return points.gather(1, rows[..., None].expand(-1, -1, points.shape[-1]))


def _frame(
    points: Tensor, rows: Tensor, radius: float | None, centred: bool
) -> tuple[Tensor, Tensor]:
    """Origin (B, 1, 3) and scale (B, 1, 1) of patches of these rows (B, N), nearest first."""
    seed, last = _at(points, rows[:, :1]), _at(points, rows[:, -1:])
    scale = torch.ones_like(seed[..., :1])
    if radius is not None:
        scale = radius / (last - seed).norm(dim=-1, keepdim=True)
    return seed if centred else torch.zeros_like(seed), scale
