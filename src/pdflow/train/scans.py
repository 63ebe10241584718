"""Training patches of made scans: cut once, then given the errors of scanners per step.

Everything runs on the device and can be recorded, as in `pdflow.train.data`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from torch import Tensor

from pdflow.errors import PdflowError
from pdflow.scenes.packed import CHANNELS, PackedScans
from pdflow.train.data import SURROUNDINGS, Batch, product, random_rotations, uniform
from pdflow.train.pairs import cut_pairs
from pdflow.train.patches import cut_patches
from pdflow.train.scan_errors import (
    ERRORS,
    MOST_SCANS,
    Surroundings,
    draw_errors,
    draw_mixed_pixels,
    draw_outliers,
)


@dataclass(frozen=True)
class ScanMix:
    """Which errors patches get, and how often.

    noises          kind of `pdflow.train.scan_errors.ERRORS` -> how often; one for each patch
    clean           share of patches without any error: they must stay as they are
    mixed_pixels    share of the others where depth edges have mixed pixels
    outliers        share of the others that have outliers
    outlier_weight  how much outliers and mixed pixels count in a loss, of which they are their
                    own targets: 0 leaves them out, 1 asks for them to stay
    """

    noises: Mapping[str, float] = field(
        default_factory=lambda: MappingProxyType(
            {
                "independent": 0.35,
                "ray": 0.15,
                "range": 0.1,
                "quantised": 0.1,
                "correlated": 0.2,
                "registration": 0.1,
            }
        )
    )
    clean: float = 0.1
    mixed_pixels: float = 0.5
    outliers: float = 0.15
    outlier_weight: float = 0.0

    def __post_init__(self) -> None:
        unknown = sorted(set(self.noises) - set(ERRORS))
        if unknown:
            raise PdflowError(
                f"There is no error of scanners {unknown[0]!r}: choose from {', '.join(ERRORS)}."
            )
        if not self.noises or min(self.noises.values()) < 0 or sum(self.noises.values()) <= 0:
            raise PdflowError("Errors of scans need at least one kind with a share above 0.")
        for name in ("clean", "mixed_pixels", "outliers", "outlier_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise PdflowError(f"{name} is {getattr(self, name)}: give a share from 0 to 1.")


class ScanPool:
    """Points of scans (T, C), and which of them lie around each seed (S, 2 N).

    points        the columns of `pdflow.scenes.packed.CHANNELS`, in the unit sphere of their scan
    surroundings  rows of points, sorted by their distance to the seed, which is the first
    """

    def __init__(self, points: Tensor, surroundings: Tensor, patch_points: int) -> None:
        self.points = points
        self.surroundings = surroundings
        self.patch_points = patch_points

    @staticmethod
    def cut(
        scans: PackedScans, seeds: int, patch_points: int, generator: torch.Generator
    ) -> ScanPool:
        """Find the surroundings of `seeds` points of each scan, on the generator's device.

        Half of the seeds are random points, which lie mostly where a scan is dense; the others
        are as far apart as possible, as those of a cloud that is denoised.
        """
        from pdflow.geometry.farthest import farthest_point_sampling

        size = SURROUNDINGS * patch_points
        fewest = int(scans.counts.min())
        if fewest < size:
            raise PdflowError(
                f"A scan has {fewest} points, fewer than the {size} around a patch of "
                f"{patch_points}: make larger scans, or lower [model] patch_points."
            )
        device = generator.device
        channels = torch.from_numpy(scans.unpacked())
        surroundings = []
        first = 0
        for count in scans.counts.tolist():
            host = channels[first : first + count, :3]
            picks = torch.randint(count, (seeds,), generator=generator, device=device)
            far = min(seeds // 2, count)
            picks[:far] = torch.from_numpy(farthest_point_sampling(host.numpy(), far)).to(device)
            cloud = host.to(device)
            distances = torch.cdist(cloud[picks], cloud)
            # Rounding must not put another point before the seed.
            distances.scatter_(1, picks[:, None], -1.0)
            rows = first + distances.topk(size, largest=False).indices
            surroundings.append(rows.to(torch.int32))
            first += count
        return ScanPool(channels.to(device), torch.cat(surroundings), patch_points)

    def sample(
        self,
        batch: int,
        levels: tuple[float, float] = (0.002, 0.12),
        scales: tuple[float, float] = (1.0, 1.0),
        radius: float | None = None,
        centred: bool = False,
        generator: torch.Generator | None = None,
        *,
        mix: ScanMix | None = None,
        pairs: bool = False,
    ) -> Batch:
        """A batch of patches with errors, randomly turned, and the clean ones.

        levels   smallest and largest sigma over the radius of the clean patch; its logarithm is
                 uniform. `mix.clean` of the patches have none.
        scales   smallest and largest random scale
        radius   None keeps the unit-sphere scale; a number scales every patch to that radius
        centred  whether the seed becomes the origin
        mix      the errors
        pairs    whether to cut a second patch from the same surroundings, around another seed

        The batch's sigma is the root of the mean square of the effective sigma of its points,
        as `pdflow.scenes.errors` defines it. Loose points (leaves, wires), outliers and mixed
        pixels are their own targets: they should stay where they are.
        """
        mix = mix or ScanMix()
        around = self._draw(batch, scales, generator)
        device = self.points.device
        low, high = (math.log(level) for level in levels)
        level = torch.exp(uniform((low, high), batch, device, generator)) * around.reach[:, 0]
        chance = torch.rand(3, batch, generator=generator, device=device)
        erring = chance[0] >= mix.clean
        level = level * erring

        offsets, sigma = draw_errors(around, level, mix.noises, generator)
        edges, mixed = draw_mixed_pixels(around, erring & (chance[1] < mix.mixed_pixels), generator)
        noisy = around.points + offsets + edges
        places, outlying = draw_outliers(around, erring & (chance[2] < mix.outliers), generator)
        noisy = torch.where(outlying[..., None], places, noisy)
        outlying = outlying | mixed
        clean = torch.where((outlying | around.loose)[..., None], noisy, around.points)

        first = cut_patches(noisy, noisy[:, :1], self.patch_points, radius, centred)
        kept = (~outlying.gather(1, first.rows)).float()
        sq_sigma = sigma.gather(1, first.rows).square() * kept
        return Batch(
            first.apply(noisy),
            first.apply(clean),
            (sq_sigma.sum(1) / kept.sum(1).clamp_min(1)).sqrt() * first.scale[:, 0, 0],
            cut_pairs(noisy, noisy, first, radius, centred) if pairs else None,
            weight=kept + mix.outlier_weight * (1 - kept),
        )

    def _draw(
        self, batch: int, scales: tuple[float, float], generator: torch.Generator | None
    ) -> Surroundings:
        """Surroundings of random seeds, turned at random and scaled."""
        device = self.points.device
        picks = torch.randint(len(self.surroundings), (batch,), generator=generator, device=device)
        drawn = self.points[self.surroundings[picks].long()]
        columns = dict(zip(CHANNELS, drawn.split(tuple(CHANNELS.values()), -1), strict=True))
        rotation = random_rotations(batch, device, generator)
        scale = uniform(scales, batch, device, generator)[:, None, None]
        points = product(columns["points"], rotation) * scale
        reach = (points[:, self.patch_points - 1] - points[:, 0]).norm(dim=-1, keepdim=True)
        return Surroundings(
            points,
            product(columns["rays"], rotation),
            product(columns["normals"], rotation),
            (columns["ranges"] * scale)[..., 0],
            (columns["jumps"] * scale)[..., 0],
            columns["pixels"],
            columns["scans"][..., 0].long() % MOST_SCANS,
            columns["loose"][..., 0] > 0,
            reach,
            # Of a surface, N points within the radius have this much area each.
            reach * math.sqrt(math.pi / self.patch_points),
        )
