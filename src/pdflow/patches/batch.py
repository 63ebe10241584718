"""Patches in the frame of a network: cut from a cloud, or brought along."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from pdflow.errors import PdflowError, ScaleWarning
from pdflow.geometry.arrays import finite_points
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.patches import Patches, PatchFrames, cover
from pdflow.geometry.stitch import STITCHERS
from pdflow.model import PDFlow
from pdflow.noise.estimate import estimate_noise
from pdflow.pipeline.denoise import OVERLAP
from pdflow.pipeline.passes import BLEND_SHARPNESS
from pdflow.pipeline.patching import conditioning_noise, network_frames
from pdflow.pipeline.plan import Conditioning, Plan, conditioning_scale

TOLERANCE = 1.5
"""How many times smaller or larger than those of training patches may be without a warning."""


@dataclass(frozen=True)
class Origin:
    """Where patches come from: a cloud, rows of it, and the frames that they were put in."""

    search: NeighborSearch
    patches: Patches
    frames: PatchFrames


@dataclass(frozen=True)
class PatchBatch:
    """Patches in the frame of a network, on its device and in its dtype.

    points  (B, N, 3)
    graph   (B, N, K) rows of the nearest neighbours in the same patch
    sigma   (B,) noise in the frame of the patches, for networks with noise conditioning
    origin  the cloud that they were cut from; None for patches of your own

    A slice of a batch is a smaller batch, for clouds with more patches than fit into memory.
    """

    points: Tensor
    graph: Tensor
    sigma: Tensor | None = None
    origin: Origin | None = None

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        count, size, _ = self.points.shape
        return f"PatchBatch: {count:,} patches of {size:,} points"

    def __getitem__(self, part: slice) -> PatchBatch:
        """Some of the patches."""
        origin = self.origin
        if origin is not None:
            whole = origin.patches
            some = Patches(whole.seeds[part], whole.rows[part], whole.sq_distances[part])
            origin = replace(origin, patches=some, frames=origin.frames[part])
        sigma = None if self.sigma is None else self.sigma[part]
        return PatchBatch(self.points[part], self.graph[part], sigma, origin)

    @property
    def rows(self) -> NDArray[np.int64]:
        """(B, N): the rows of the cloud that the points of each patch come from, seed first."""
        return self._origin().patches.rows

    def restore(self, points: Tensor) -> NDArray[np.float64]:
        """Points (B, N, 3) of the network's frame in the frame of the cloud."""
        return self._origin().frames.undo(points.detach().double().cpu().numpy())

    def stitch(self, points: Tensor) -> NDArray[np.float64]:
        """The cloud (M, 3), each point as the weighted mean of what patches (B, N, 3) make of it.

        The batch must hold all patches of the cloud, as `cut` returns them.
        """
        origin = self._origin()
        covered = len(np.unique(origin.patches.rows))
        if covered < len(origin.search):
            raise PdflowError(
                f"These patches hold {covered} of {len(origin.search)} points: stitch all patches "
                "of a cloud, cut without seeds."
            )
        moved, count = self.restore(points), len(origin.search)
        return STITCHERS["points"](origin.search, origin.patches, moved, count, BLEND_SHARPNESS)

    def _origin(self) -> Origin:
        if self.origin is None:
            raise PdflowError("These patches were not cut from a cloud: use patches.cut for that.")
        return self.origin


def cut(
    model: PDFlow,
    cloud: ArrayLike,
    *,
    overlap: float = OVERLAP,
    seeds: ArrayLike | None = None,
    noise: float | None = None,
) -> PatchBatch:
    """Cut a cloud into patches, and put each into the frame that the network was trained in.

    cloud    (M, 3)
    overlap  patches that a point is in, on average
    seeds    rows of the cloud to cut patches around, instead of covering all of it
    noise    standard deviation of the noise in the cloud's unit; None estimates it

    A patch holds the `patch_points` nearest neighbours of its seed. Networks with noise
    conditioning are told the noise as in a run of a single pass.
    """
    points = finite_points(cloud)
    search = NeighborSearch(points)
    size = model.config.patch_points
    patches = cover(search, size, overlap) if seeds is None else _around(search, seeds, size)
    frames = network_frames(model, points, patches)
    sigma: NDArray[np.float64] | None = None
    if model.config.noise_conditioning:
        scale = conditioning_scale(model.inference, 0, Plan(1, 1))
        if noise is None:
            levels = Conditioning(estimate_noise(search), scale).at(points[patches.seeds])
        else:
            levels = np.full(len(patches), scale * noise)
        sigma = conditioning_noise(model, levels, frames)
    batch = given(model, frames.cut(points, patches.rows), sigma)
    return replace(batch, origin=Origin(search, patches, frames))


def given(model: PDFlow, points: Any, sigma: Any = None) -> PatchBatch:
    """Patches of your own, which are in the network's frame already.

    points  (B, N, 3) array or tensor; each patch with its seed at the origin and with the radius
            `model.inference.patch_radius`. A `ScaleWarning` tells of patches that are far from it
    sigma   noise of the patches in that frame, one number or one (B,) for each, for networks with
            noise conditioning

    Numbers get the dtype and the device of the network, so after `model.double()` all is float64.
    """
    like = next(model.parameters())
    placed = torch.as_tensor(points).to(like)
    graph = model.graph(placed)
    if not torch.isfinite(placed).all():
        raise PdflowError("Patches have NaN or infinite coordinates: drop those points.")
    _warn_of_scale(model, placed)
    if sigma is not None:
        sigma = torch.as_tensor(sigma).to(like).expand(len(placed))
    return PatchBatch(placed, graph, sigma)


def _around(search: NeighborSearch, seeds: ArrayLike, size: int) -> Patches:
    """Patches around rows (P,) of a cloud."""
    rows = np.atleast_1d(np.asarray(seeds))
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or not len(rows):
        raise PdflowError(f"seeds is {seeds!r}: give rows of the cloud.")
    if rows.min() < 0 or rows.max() >= len(search):
        bad = rows[(rows < 0) | (rows >= len(search))][0]
        raise PdflowError(f"There is no row {bad}: give 0 to {len(search) - 1}.")
    sq_distances, nearest = search.knn(search.points[rows], min(size, len(search)))
    return Patches(rows.astype(np.int64), nearest, sq_distances)


def _warn_of_scale(model: PDFlow, points: Tensor) -> None:
    """Tell of patches (B, N, 3) whose radius is unlike that of training patches.

    Smaller patches of as dense a surface have fewer points.
    """
    middle = 0 if model.inference.centred else points.mean(1, keepdim=True)
    radii = (points - middle).norm(dim=-1).amax(1)
    radii = radii * (model.config.patch_points / points.shape[1]) ** 0.5
    smallest, largest = model.inference.patch_radius
    wrong = radii[(radii < smallest / TOLERANCE) | (radii > largest * TOLERANCE)]
    if len(wrong):
        known = f"{smallest:g}" if smallest == largest else f"{smallest:g} to {largest:g}"
        warnings.warn(
            f"{len(wrong)} of {len(points)} patches have a radius like {float(wrong[0]):.3g}, and "
            f"this network knows {known}: cut them with patches.cut, or scale them.",
            ScaleWarning,
            stacklevel=3,
        )
