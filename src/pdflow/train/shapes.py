"""Training data: clean clouds by shape, or patches that were cut before."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.train.data import PatchPool


class Shapes:
    """Clean clouds by shape, each in its unit sphere.

    clouds  shape name -> clouds (M, 3) of that shape, one per resolution
    digest  SHA-256 of names and coordinates, for the provenance of weights
    """

    def __init__(self, clouds: dict[str, list[NDArray[np.float64]]]) -> None:
        self.clouds = clouds
        digest = hashlib.sha256()
        for name in sorted(clouds):
            digest.update(name.encode())
            for cloud in clouds[name]:
                if len(cloud) and not np.ptp(cloud, axis=0).any():
                    raise PdflowError(
                        f"Shape {name!r} has {len(cloud)} equal points, so there is no surface to "
                        "learn: leave it out."
                    )
                digest.update(cloud.astype(np.float32).tobytes())
        self.digest = digest.hexdigest()

    def split(self, holdout: tuple[str, ...]) -> tuple[Shapes, Shapes]:
        """Shapes to train on, and held-out shapes for validation."""
        missing = sorted(set(holdout) - set(self.clouds))
        if missing:
            raise PdflowError(
                f"Held-out shape {missing[0]!r} is not among the training shapes: name others "
                "with --holdout or [data] holdout."
            )
        kept = {k: v for k, v in self.clouds.items() if k not in holdout}
        if not kept:
            raise PdflowError("All shapes are held out: leave some to train on.")
        return Shapes(kept), Shapes({k: self.clouds[k] for k in holdout})

    def __len__(self) -> int:
        """The number of clouds."""
        return sum(len(clouds) for clouds in self.clouds.values())

    def in_order(self) -> list[NDArray[np.float64]]:
        """All clouds (M, 3), by the names of their shapes."""
        return [cloud for name in sorted(self.clouds) for cloud in self.clouds[name]]

    def pool(self, seeds: int, patch_points: int, generator: torch.Generator) -> PatchPool:
        """Surroundings of `seeds` points of every cloud, on the generator's device."""
        return PatchPool.cut(self.in_order(), seeds, patch_points, generator)


class ReadyPatches:
    """Clean patches (P, n, 3) that were cut before, and held-out ones (Q, n, 3).

    Each patch is scaled to the unit sphere, so noise is relative to its radius. Noise cannot bring
    points from outside into such a patch, so its rim is less realistic than that of a patch cut
    from a cloud.
    """

    def __init__(self, patches: NDArray[np.floating], held: NDArray[np.floating]) -> None:
        self.patches, self.held = np.asarray(patches), np.asarray(held)
        self.digest = hashlib.sha256(self.patches.astype(np.float32).tobytes()).hexdigest()

    def split(self, holdout: tuple[str, ...]) -> tuple[ReadyPatches, ReadyPatches]:
        """Patches to train on, and held-out ones; `holdout` names shapes, which patches lack."""
        nothing = self.held[:0]
        return ReadyPatches(self.patches, nothing), ReadyPatches(self.held, nothing)

    def __len__(self) -> int:
        """The number of patches."""
        return len(self.patches)

    def pool(self, seeds: int, patch_points: int, generator: torch.Generator) -> PatchPool:
        """All patches, each with the point nearest to its centre as the only seed."""
        if self.patches.shape[1] < patch_points:
            raise PdflowError(
                f"Patches of {self.patches.shape[1]} points are smaller than those of the recipe "
                f"({patch_points}): lower [model] patch_points."
            )
        points = torch.from_numpy(self.patches).float().to(generator.device)
        points = points - (points.amin(1, keepdim=True) + points.amax(1, keepdim=True)) / 2
        radius = points.norm(dim=2).amax(1)
        if not radius.all():
            row = int((radius == 0).nonzero()[0])
            raise PdflowError(f"All points of patch {row} are equal: leave it out.")
        points = points / radius[:, None, None]
        middle = points.norm(dim=2).argmin(1)
        seed = points[torch.arange(len(points)), middle]
        order = (points - seed[:, None]).norm(dim=2).argsort(dim=1)
        return PatchPool(points.gather(1, order[..., None].expand_as(points)), patch_points)


Source = Shapes | ReadyPatches
"""What a run can train on."""
