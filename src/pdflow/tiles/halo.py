"""Halo: the cells around a tile that decide about its points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.tangential import AVERAGED
from pdflow.pipeline import large
from pdflow.tiles.store import Index

SAFETY = 1.5
"""Patches may be this much wider than a cell's size and number of points say."""

MOST = 4.0
"""A tile and its halo have at most this many times the points of the largest tile; where a sparse
region meets a dense one, the farthest cells are left out."""


def patch_radii(index: Index, patch_points: int) -> FloatArray:
    """(C,): about the radius of the patches around the points of each cell.

    A cell is taken for a surface with the two longest edges of its box, or for a line along the
    longest, whichever gives the wider patches.
    """
    edges = np.sort(index.boxes[:, 1] - index.boxes[:, 0], axis=1)
    share = patch_points / np.maximum(index.cells.counts, 1)
    surface = np.sqrt(share * edges[:, 2] * edges[:, 1] / np.pi)
    line = share * edges[:, 2] / 2
    radii = np.maximum(surface, line)
    return np.asarray(np.maximum(radii, np.median(radii) / 4))


def cells_for_pass(index: Index, tile: int, patch_points: int) -> IntArray:
    """The cells that a pass over a tile must see, ascending.

    Patches that hold a point of the tile have seeds within their radius of it. Cells are seen
    whole, because seeds depend on all points of a cell. Twice the reach is seen: points that no
    patch holds get seeds of their own, so the patches next to those around the tile count as well.
    """
    core = index.cells_of_tile(tile)
    reach = 2 * SAFETY * patch_radii(index, patch_points)
    return _nearest(index, core, np.union1d(core, _within(index, core, reach)))


def cells_for_limit(index: Index, tile: int) -> IntArray:
    """The cells whose probes the limit of tangential motion in a tile depends on, ascending."""
    core = index.cells_of_tile(tile)
    return _nearest(index, core, np.union1d(core, _within(index, core, _limit_reach(index))))


def near_enough_for_limit(
    index: Index, tile: int, points: FloatArray, cells: IntArray
) -> NDArray[np.bool_]:
    """(m,): which points (m, 3) of cells (m,) the limit of motion in a tile depends on.

    No seeds are chosen in this stage, so cells need not be whole.
    """
    core = index.cells_of_tile(tile)
    low, high = index.boxes[core, 0].min(axis=0), index.boxes[core, 1].max(axis=0)
    outside = np.maximum(np.maximum(low - points, points - high), 0.0)
    return np.asarray((outside**2).sum(axis=1) <= _limit_reach(index)[cells] ** 2)


def _limit_reach(index: Index) -> FloatArray:
    """(C,): how far the probes of each cell decide about others."""
    return SAFETY * patch_radii(index, large.PROBE_STEP * AVERAGED[1])


def _within(index: Index, core: IntArray, reach: FloatArray) -> IntArray:
    """Cells whose distance from one of the cells `core` is at most their own reach (C,)."""
    low, high = index.boxes[core, 0].min(axis=0), index.boxes[core, 1].max(axis=0)
    around = np.flatnonzero(_gaps(index.boxes, low[None], high[None])[:, 0] <= reach)
    gaps = _gaps(index.boxes[around], index.boxes[core, 0], index.boxes[core, 1])
    return np.asarray(around[gaps.min(axis=1) <= reach[around]])


def _nearest(index: Index, core: IntArray, cells: IntArray) -> IntArray:
    """The cells, without the farthest ones where they hold too many points."""
    ends = np.append(index.tiles, len(index.cells))
    largest = int(np.diff(index.offsets[ends]).max())
    counts = index.cells.counts
    if counts[cells].sum() <= MOST * largest:
        return cells
    gaps = _gaps(index.boxes[cells], index.boxes[core, 0], index.boxes[core, 1]).min(axis=1)
    order = np.argsort(gaps, kind="stable")
    kept = np.cumsum(counts[cells[order]]) <= MOST * largest
    return np.union1d(core, cells[order[kept]])


def _gaps(boxes: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """(A, B): distances between boxes (A, 2, 3) and others with corners `low`, `high` (B, 3)."""
    sq_gaps = np.zeros((len(boxes), len(low)))
    for axis in range(3):
        below = low[None, :, axis] - boxes[:, 1, axis, None]
        above = boxes[:, 0, axis, None] - high[None, :, axis]
        sq_gaps += np.maximum(np.maximum(below, above), 0.0) ** 2
    return np.sqrt(sq_gaps)
