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
from pdflow.pipeline.large import Layout


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
    layout   of these points, if the cloud is large
    """

    rows: IntArray
    search: NeighborSearch
    patches: Patches | None
    count: int | None
    layout: Layout | None = None


def cut_pieces(
    search: NeighborSearch,
    cutting: Cutting,
    count: int | None = None,
    layout: Layout | None = None,
) -> Iterator[Piece]:
    """The connected components of a cloud, covered with patches.

    count   points that the cloud is resampled to, in proportion to the size of its pieces
    layout  of the points of a large cloud; patches that hold none of its wanted points are left out
    """
    points, total = search.points, len(search)
    # New points are made of the places that patches give to the old ones.
    most = total * min(total, cutting.size)
    if count is not None and count > most:
        raise PdflowError(f"{count} points cannot be made: ask for at most {most}.")
    growth = (count or 0) / total
    overlap = cutting.overlap if growth <= 1 else max(cutting.overlap, 1 + growth)
    cells = None if layout is None else layout.cells
    patches = cover(search, cutting.size, overlap, cutting.radius, cells)
    components = [np.arange(total)]
    if cutting.radius is None:
        components = split_components(patches, total)
    if len(components) == 1:
        if layout is not None and layout.wanted is not None:
            patches = patches.holding(layout.wanted)
        yield Piece(np.arange(total), search, patches, count, layout)
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
        part_layout = None if layout is None else layout.take(rows)
        if part_layout is not None and len(rows) < cutting.size:
            part_layout = replace(part_layout, cells=None)
        for piece in cut_pieces(part, cutting, share, part_layout):
            yield replace(piece, rows=rows[piece.rows])


def network_frames(
    model: PDFlow, points: FloatArray, patches: Patches, layout: Layout | None = None
) -> PatchFrames:
    """What brings patches of a cloud (M, 3) to the place, size and density that a model knows.

    layout  of the points of a large cloud, which has the frame of all of it
    """
    inference = model.inference
    return patch_frames(
        points,
        patches,
        unit_sphere(points) if layout is None or layout.cells is None else layout.sphere,
        inference.patch_radius,
        model.config.patch_points,
        inference.centred,
    )


def conditioning_noise(model: PDFlow, sigma: FloatArray, frames: PatchFrames) -> FloatArray | None:
    """(P,): the noise of patches (P,) in their own frames; None without noise conditioning."""
    return np.asarray(sigma / frames.scale) if model.config.noise_conditioning else None
