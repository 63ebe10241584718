"""The errors of `pdflow.scenes.errors`, drawn for a batch of surroundings on its device.

Nothing is copied to the device and no shape depends on what is drawn, so that a step can be
recorded: all kinds are drawn for all patches, and one is picked for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pdflow.scenes.errors import (
    CORRELATION_LENGTHS,
    FAR_AND_GRAZING,
    INDEPENDENT_SHARE,
    KINDS,
    REGISTRATION_SHARE,
)

FEATURES = 48
"""Cosines that a smooth random function is the sum of."""

MOST_SCANS = 8
"""Scans that may overlap; the numbers of more are folded onto these."""

OUTLIER_SHARES = (0.005, 0.2)
"""Fewest and most outliers among the points of a patch that has any."""

CLUMPS = 4
"""Clumps of outliers around a patch."""

MIXED = 0.5
"""Part of the points at a depth edge that are mixed pixels, in patches that have any."""


class Surroundings(NamedTuple):
    """Points around B seeds, S each, and what their scanner knew of them.

    points, rays, normals  (B, S, 3), the seed first
    ranges, jumps          (B, S) as in `pdflow.scenes.scan`
    pixels                 (B, S, 2), NaN where there is no grid
    scans                  (B, S) int64, from 0 to MOST_SCANS - 1
    loose                  (B, S) bool
    reach                  (B, 1) radius of the clean patch
    spacing                (B, 1) of its points, if they were even
    """

    points: Tensor
    rays: Tensor
    normals: Tensor
    ranges: Tensor
    jumps: Tensor
    pixels: Tensor
    scans: Tensor
    loose: Tensor
    reach: Tensor
    spacing: Tensor

    @property
    def slants(self) -> Tensor:
        """(B, S): cosine between ray and normal, with the sign of the side that is seen."""
        return (self.rays * self.normals).sum(-1)


Drawing = Callable[[Surroundings, Tensor, "torch.Generator | None"], tuple[Tensor, Tensor]]
"""(surroundings, sigma (B, 1), generator) -> offsets (B, S, 3) and effective sigma (B, S)."""


def draw_errors(
    around: Surroundings,
    sigma: Tensor,
    shares: Mapping[str, float],
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Offsets (B, S, 3) and effective sigma (B, S), each patch with one kind of ERRORS.

    sigma   (B,) standard deviation, as `pdflow.scenes.errors` defines it for every kind
    shares  kind -> how often it is drawn; they need not sum to 1
    """
    offsets, effective = torch.zeros_like(around.points), torch.zeros_like(around.ranges)
    place = torch.rand(len(sigma), 1, generator=generator, device=sigma.device)
    total, low = sum(shares.values()), 0.0
    for kind, share in shares.items():
        high = low + share / total
        chosen = (place >= low) & (place < high)
        drawn, seen = ERRORS[kind](around, sigma[:, None], generator)
        offsets = torch.where(chosen[..., None], drawn, offsets)
        effective = torch.where(chosen, seen, effective)
        low = high
    return offsets, effective


def _independent(
    around: Surroundings, sigma: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    return sigma[..., None] * _normal(around.points, generator), sigma.expand_as(around.ranges)


def _ray(
    around: Surroundings, sigma: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    return _along(around, sigma * _normal(around.ranges, generator), sigma)


def _range(
    around: Surroundings, sigma: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    power = _between(0.5, 2.0, sigma, generator)
    distance = around.ranges / around.ranges[:, :1].clamp_min(1e-6)
    factor = distance.clamp_min(1e-6) ** power / around.slants.abs().clamp_min(0.1)
    factor = factor.clamp(*FAR_AND_GRAZING)
    own = sigma * factor / _rms(factor)
    return _along(around, own * _normal(around.ranges, generator), own)


def _quantised(
    around: Surroundings, sigma: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    # Ranges from that of the seed on, which keeps digits; where the steps begin is random.
    step = (math.sqrt(6) * sigma).clamp_min(1e-12)
    true = (around.ranges - around.ranges[:, :1]) / step + _between(0.0, 1.0, sigma, generator)
    noise = math.sqrt(1 / 12) * _normal(around.ranges, generator)
    error = ((true + noise).round() - true) * math.sqrt(6)
    return _along(around, sigma * error, sigma)


def _correlated(
    around: Surroundings, sigma: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    length = _between(*CORRELATION_LENGTHS, sigma, generator)[..., None]
    scan = (around.scans - around.scans[:, :1])[..., None]
    pixels = around.pixels - around.pixels[:, :1] + 100 * length * scan
    gridded = torch.isfinite(around.pixels[..., :1])
    spots = (around.points - around.points[:, :1]) / around.spacing[..., None]
    flat = torch.cat([pixels, torch.zeros_like(pixels[..., :1])], -1)
    places = torch.where(gridded, flat, spots)
    shape, device = (len(sigma), 3, FEATURES), sigma.device
    waves = torch.randn(shape, generator=generator, device=device) * math.sqrt(2) / length
    phases = 2 * math.pi * torch.rand(shape[0], 1, FEATURES, generator=generator, device=device)
    # Axis by axis: a matrix product might be rounded to fewer digits.
    for axis in range(3):
        phases = phases + places[..., axis : axis + 1] * waves[:, axis : axis + 1]
    smooth = math.sqrt(2 / FEATURES) * phases.cos().sum(-1)
    rough = _normal(smooth, generator)
    error = math.sqrt(1 - INDEPENDENT_SHARE) * smooth + math.sqrt(INDEPENDENT_SHARE) * rough
    sides = torch.where(gridded[..., 0] | (around.slants >= 0), 1.0, -1.0)
    return _along(around, sigma * sides * error, sigma)


def _registration(
    around: Surroundings, sigma: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    batch, device = len(sigma), sigma.device
    halves = torch.randint(2, around.scans.shape, generator=generator, device=device)
    alone = around.scans.amin(1, keepdim=True) == around.scans.amax(1, keepdim=True)
    numbers = torch.where(alone, halves, around.scans)[..., None].expand(-1, -1, 3)
    share = torch.rand(batch, MOST_SCANS, 1, generator=generator, device=device)
    drawn = torch.randn(2, batch, MOST_SCANS, 3, generator=generator, device=device)
    shifts, turns = normalize(drawn, dim=-1).unbind(0)
    shift, turn = (share * turns).gather(1, numbers), ((1 - share) * shifts).gather(1, numbers)
    places = (around.points - around.points[:, :1]) / around.reach[..., None]
    # The mean move is taken off: the truth lies in the middle of the scans.
    turn, shift = turn - turn.mean(1, keepdim=True), shift - shift.mean(1, keepdim=True)
    moves = shift + torch.linalg.cross(turn, places)
    across = (moves * around.normals).sum(-1)
    size = math.sqrt(REGISTRATION_SHARE) * sigma / _rms(across)
    rest = math.sqrt(1 - REGISTRATION_SHARE) * sigma
    offsets = size[..., None] * moves + rest[..., None] * _normal(moves, generator)
    return offsets, ((size * across).square() + rest.square()).sqrt()


ERRORS: dict[str, Drawing] = dict(
    zip(KINDS, (_independent, _ray, _range, _quantised, _correlated, _registration), strict=True)
)


def draw_mixed_pixels(
    around: Surroundings, happens: Tensor, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Offsets (B, S, 3) of points at depth edges that see both sides, and which do (B, S).

    happens  (B,) bool: patches that have mixed pixels
    """
    share = _uniform(around.jumps, generator)
    mixed = (around.jumps != 0) & (_uniform(around.jumps, generator) < MIXED) & happens[:, None]
    moves = around.jumps * (0.1 + 0.8 * share) * mixed
    return moves[..., None] * around.rays, mixed


def draw_outliers(
    around: Surroundings, happens: Tensor, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Places (B, S, 3) of outliers, and which points are replaced by them (B, S), never a seed.

    happens  (B,) bool: patches that have outliers

    A patch has outliers of one of three kinds: anywhere around, in clumps, along rays.
    """
    reach = around.reach[..., None]
    seed = around.points[:, :1]
    directions = normalize(_normal(around.points, generator), dim=-1)
    shares = _uniform(around.ranges, generator)[..., None]
    anywhere = seed + 1.4 * reach * directions * shares ** (1 / 3)
    sizes = around.spacing[..., None] * (1 + 4 * shares[:, :CLUMPS])
    clump = torch.randint(CLUMPS, shares.shape, generator=generator, device=shares.device)
    clump = clump.expand_as(anywhere)
    spread = sizes.expand(-1, -1, 3).gather(1, clump) * _normal(anywhere, generator)
    clumped = anywhere[:, :CLUMPS].gather(1, clump) + spread
    away = reach * torch.exp(math.log(0.05) * shares)  # from 1 down to 0.05, near more often
    along = around.points + away * torch.where(directions[..., :1] > 0, 1.0, -1.0) * around.rays
    kind = torch.randint(3, (len(seed), 1, 1), generator=generator, device=seed.device)
    places = torch.where(kind == 0, anywhere, torch.where(kind == 1, clumped, along))
    low, high = (math.log(share) for share in OUTLIER_SHARES)
    share = torch.exp(_between(low, high, around.reach, generator))
    chosen = (_uniform(around.ranges, generator) < share) & happens[:, None]
    return places, chosen & (torch.arange(chosen.shape[1], device=chosen.device) > 0)


def _along(around: Surroundings, errors: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
    """Errors (B, S) along the rays as offsets, and what can be seen of their sigma."""
    return errors[..., None] * around.rays, sigma * around.slants.abs()


def _normal(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(like.shape, generator=generator, device=like.device)


def _uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(like.shape, generator=generator, device=like.device)


def _between(low: float, high: float, like: Tensor, generator: torch.Generator | None) -> Tensor:
    return low + (high - low) * _uniform(like, generator)


def _rms(values: Tensor) -> Tensor:
    """(B, 1): root of the mean square over the points."""
    return values.square().mean(1, keepdim=True).sqrt().clamp_min(1e-9)
