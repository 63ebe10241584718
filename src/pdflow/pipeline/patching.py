"""Cut a cloud into patches in the network's frame, one connected component at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.components import FEWEST_POINTS, split_components
from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.patches import Patches, PatchFrames, cover, patch_frames
from pdflow.model import PDFlow


@dataclass(frozen=True)
class Cutting:
    """How clouds are cut.

    size     points in a patch
    overlap  patches that a point is in, on average
    radius   None grows patches by nearest neighbours; a number keeps them in that ball
    """

    size: int
    overlap: float
    radius: float | None = None


@dataclass(frozen=True)
class Piece:
    """Part of a cloud that goes through the network on its own.

    rows     (n,) rows of the cloud
    search   of these points
    patches  that cover them; None for components with too few points to show a surface
    count    points that it is resampled to; None keeps its rows
    """

    rows: IntArray
    search: NeighborSearch
    patches: Patches | None
    count: int | None


def cut_pieces(
    search: NeighborSearch, cutting: Cutting, count: int | None = None
) -> Iterator[Piece]:
    """The connected components of a cloud, covered with patches.

    count  points that the cloud is resampled to, in proportion to the size of its pieces
    """
    points, total = search.points, len(search)
    # New points are made of the places that patches give to the old ones.
    most = total * min(total, cutting.size)
    if count is not None and count > most:
        raise PdflowError(f"{count} points cannot be made: ask for at most {most}.")
    growth = (count or 0) / total
    overlap = cutting.overlap if growth <= 1 else max(cutting.overlap, 1 + growth)
    patches = cover(search, cutting.size, overlap, cutting.radius)
    components = [np.arange(total)]
    if cutting.radius is None:
        components = split_components(patches, total)
    if len(components) == 1:
        yield Piece(np.arange(total), search, patches, count)
        return
    shares: list[int | None] = [None] * len(components)
    if count is not None:
        ends = np.cumsum([0, *map(len, components)]) * count / total
        shares = np.diff(ends.round().astype(int)).tolist()
    for rows, share in zip(components, shares, strict=True):
        part = NeighborSearch(points[rows])
        if len(rows) < FEWEST_POINTS:
            yield Piece(rows, part, None, share)
            continue
        for piece in cut_pieces(part, cutting, share):
            yield replace(piece, rows=rows[piece.rows])


def network_frames(model: PDFlow, points: FloatArray, patches: Patches) -> PatchFrames:
    """What brings patches of a cloud (M, 3) to the place, size and density that a model knows."""
    inference = model.inference
    return patch_frames(
        points,
        patches,
        unit_sphere(points),
        inference.patch_radius,
        model.config.patch_points,
        inference.centred,
    )


def conditioning_noise(model: PDFlow, sigma: FloatArray, frames: PatchFrames) -> FloatArray | None:
    """(P,): the noise of patches (P,) in their own frames; None without noise conditioning."""
    return np.asarray(sigma / frames.scale) if model.config.noise_conditioning else None
