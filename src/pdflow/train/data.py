"""Training patches: surroundings are cut once; each step rotates them, adds noise and cuts patches.

Everything runs on the device, so no step waits for the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from pdflow.errors import PdflowError
from pdflow.noise.kinds import KINDS
from pdflow.train.pairs import PatchPairs, cut_pairs
from pdflow.train.patches import cut_patches

SURROUNDINGS = 2
"""Size of the surroundings of a seed, in patches: noise may move any of these points inside."""


@dataclass(frozen=True)
class Batch:
    """Noisy patches in the network's frame, and what is known of them.

    noisy  (B, N, 3)
    clean  (B, N, 3) the same points without noise, row by row
    sigma  (B,) standard deviation of the noise, in that frame
    pairs  a second, overlapping patch for each; None unless the loss needs them
    weight (B, N) of every point in the loss; None counts all alike
    """

    noisy: Tensor
    clean: Tensor
    sigma: Tensor
    pairs: PatchPairs | None = None
    weight: Tensor | None = None

    def __getitem__(self, part: slice) -> Batch:
        return self.map(lambda tensor: tensor[part])

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with every tensor changed by the same function."""
        pairs = self.pairs and self.pairs.map(change)
        weight = None if self.weight is None else change(self.weight)
        return Batch(change(self.noisy), change(self.clean), change(self.sigma), pairs, weight)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name; not copies."""
        named = {"noisy": self.noisy, "clean": self.clean, "sigma": self.sigma}
        if self.weight is not None:
            named["weight"] = self.weight
        pairs = vars(self.pairs) if self.pairs else {}
        return named | {f"pairs.{name}": tensor for name, tensor in pairs.items()}

    def join(self, other: Batch) -> Batch:
        """One batch of the patches of both; neither has pairs."""
        weights = [
            torch.ones_like(batch.noisy[..., 0]) if batch.weight is None else batch.weight
            for batch in (self, other)
        ]
        return Batch(
            torch.cat([self.noisy, other.noisy]),
            torch.cat([self.clean, other.clean]),
            torch.cat([self.sigma, other.sigma]),
            weight=torch.cat(weights),
        )


class PatchPool:
    """Clean surroundings (S, up to 2 N, 3) of seeds, in the unit-sphere frame of their clouds.

    Rows are sorted by their distance to the seed, which is the first.
    """

    def __init__(self, surroundings: Tensor, patch_points: int) -> None:
        self.surroundings = surroundings
        self.patch_points = patch_points

    @staticmethod
    def cut(
        clouds: Sequence[NDArray[np.float64]],
        seeds: int,
        patch_points: int,
        generator: torch.Generator,
    ) -> PatchPool:
        """Cut surroundings of `seeds` random points from each cloud (M, 3) in the unit sphere."""
        fewest = min(len(cloud) for cloud in clouds)
        if fewest < patch_points:
            raise PdflowError(
                f"A clean cloud has {fewest} points, fewer than the {patch_points} of a patch: "
                "leave it out, sample it more densely, or lower [model] patch_points."
            )
        size = min(SURROUNDINGS * patch_points, fewest)
        device = generator.device
        surroundings = torch.empty(len(clouds), seeds, size, 3, device=device)
        for cloud, filled in zip(clouds, surroundings, strict=True):
            points = torch.from_numpy(cloud).float().to(device)
            picks = torch.randint(len(points), (seeds,), generator=generator, device=device)
            for some, part in zip(picks.split(256), filled.split(256), strict=True):
                distances = torch.cdist(points[some], points)
                part.copy_(points[distances.topk(size, largest=False).indices])
        return PatchPool(surroundings.flatten(0, 1), patch_points)

    def sample(
        self,
        batch: int,
        levels: tuple[float, float],
        scales: tuple[float, float] = (1.0, 1.0),
        radius: float | None = None,
        centred: bool = False,
        generator: torch.Generator | None = None,
        *,
        kinds: Sequence[str] = ("gaussian",),
        deform: float = 0.0,
        bend: float = 0.0,
        cut: str = "noisy",
        pairs: bool = False,
    ) -> Batch:
        """A batch of noisy patches, randomly rotated, and the same patches without noise.

        levels   smallest and largest noise, relative to the bounding sphere
        scales   smallest and largest random scale, applied before the noise
        radius   None keeps the unit-sphere scale; a number scales every patch to that radius
        centred  whether the seed becomes the origin
        kinds    names in `pdflow.noise.KINDS`; every patch gets one of them
        deform   size of a random linear map that stretches and shears patches before the noise
        bend     size of a random quadratic map that bends patches around their seed: it moves the
                 rim of the surroundings by about this share of their radius
        cut      whether patches are cut from the "noisy" surroundings, as when denoising, or from
                 the "clean" ones, as the authors did
        pairs    whether to cut a second patch from the same surroundings, around another seed
        """
        device = self.surroundings.device
        picks = torch.randint(len(self.surroundings), (batch,), generator=generator, device=device)
        scale = uniform(scales, batch, device, generator)
        rotation = random_rotations(batch, device, generator) * scale[:, None, None]
        if deform:
            shear = torch.randn(batch, 3, 3, generator=generator, device=device)
            rotation = rotation + deform * product(rotation, shear)
        clean = product(self.surroundings[picks], rotation)
        if bend:
            clean = _bent(clean, bend, generator)
        level = uniform(levels, batch, device, generator)
        offsets, spread = draw_noise(kinds, (batch, clean.shape[1]), device, generator)
        noisy, sigma = clean + level[:, None, None] * offsets, level * spread
        sought = noisy if cut == "noisy" else clean
        first = cut_patches(sought, sought[:, :1], self.patch_points, radius, centred)
        return Batch(
            first.apply(noisy),
            first.apply(clean),
            sigma * first.scale[:, 0, 0],
            cut_pairs(noisy, sought, first, radius, centred) if pairs else None,
        )


def draw_noise(
    kinds: Sequence[str],
    shape: tuple[int, int],
    device: torch.device,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Offsets (B, N, 3) at s = 1 for `shape` (B, N), each patch with one of `kinds`.

    The second result (B,) is their standard deviation, as a root mean square over the axes. Every
    kind is drawn for every patch and one is picked: nothing is copied to the device, so a CUDA
    graph can record the step.
    """
    patches, chosen_from = shape[0], [KINDS[kind] for kind in kinds]
    offsets = torch.stack([kind.draw_tensor(shape, device, generator) for kind in chosen_from])
    spreads = torch.stack(
        [torch.full((patches,), kind.spread, device=device) for kind in chosen_from]
    )
    chosen = torch.randint(len(kinds), (patches,), generator=generator, device=device)
    rows = torch.arange(patches, device=device)
    return offsets[chosen, rows], spreads[chosen, rows]


def product(rows: Tensor, matrices: Tensor) -> Tensor:
    """rows (B, N, C) times matrices (B, C, 3), in float32 at any precision of matrix products."""
    return (rows[..., None] * matrices[:, None]).sum(-2)


def _bent(clean: Tensor, size: float, generator: torch.Generator | None) -> Tensor:
    """clean (B, N, 3) plus random quadratic forms of the offsets from its first rows, the seeds."""
    offsets = clean - clean[:, :1]
    radius = offsets.square().sum(-1).amax(1).sqrt()[:, None, None]
    x, y, z = (offsets / radius).unbind(-1)
    squares = torch.stack([x * x, y * y, z * z, x * y, y * z, z * x], -1)
    forms = torch.randn(len(clean), 6, 3, generator=generator, device=clean.device)
    return clean + size * radius * product(squares, forms)


def uniform(
    bounds: tuple[float, float], count: int, device: torch.device, generator: torch.Generator | None
) -> Tensor:
    """(count,): random numbers between two bounds."""
    low, high = bounds
    return low + (high - low) * torch.rand(count, generator=generator, device=device)


def random_rotations(
    count: int, device: torch.device, generator: torch.Generator | None = None
) -> Tensor:
    """Uniform rotations (count, 3, 3): a random axis, a random one orthogonal to it, the third."""
    drawn = torch.randn(2, count, 3, generator=generator, device=device)
    first = normalize(drawn[0], dim=1)
    second = normalize(torch.linalg.cross(first, drawn[1]), dim=1)
    return torch.stack([first, second, torch.linalg.cross(first, second)], 1)
