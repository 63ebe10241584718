"""Parts of a cloud that lie so far apart that no patch may hold points of two of them."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.patches import Patches

FEWEST_POINTS = 64
"""Fewer points than this do not tell a surface from noise, alone."""

JUMP = 2.0
"""How many times as far as all of an island, seen from one of its points, all others must be."""

FEWEST_ALONE = 13
WIDE_JUMP = 10.0
"""From FEWEST_ALONE points on there are islands with too few for a surface, behind wider gaps."""


def points_within_reach(sq_distances: FloatArray) -> IntArray:
    """(P,): how many neighbours, of N sorted by distance (P, N), lie before the first wide gap.

    Among the first FEWEST_POINTS only very wide gaps count: near a point, scanners leave gaps on
    surfaces.
    """
    count = sq_distances.shape[1]
    places = np.arange(FEWEST_ALONE, count)
    if len(places) == 0:
        return np.full(len(sq_distances), count)
    jumps = np.where(places < FEWEST_POINTS, WIDE_JUMP, JUMP)
    gaps = sq_distances[:, FEWEST_ALONE:] > jumps**2 * sq_distances[:, FEWEST_ALONE - 1 : -1]
    return np.asarray(np.where(gaps.any(axis=1), places[gaps.argmax(axis=1)], count))


def split_islands(patches: Patches, count: int) -> list[IntArray]:
    """Rows of the islands that patches of nearest neighbours of a cloud of `count` points show.

    What is not on them comes last; without islands it is all that comes. Only an island smaller
    than a patch shows, and only where it has a seed: the rest may have more of them.

    A patch that reached across a gap would be as wide as the gap, and the surface at its seed
    smaller in it than anything a network can see.
    """
    reached = points_within_reach(patches.sq_distances)
    left = np.ones(count, dtype=bool)
    islands = []
    for patch in np.flatnonzero(reached < patches.rows.shape[1]):
        rows = patches.rows[patch, : reached[patch]]
        if left[rows].all():
            islands.append(np.sort(rows))
            left[rows] = False
    rest = np.flatnonzero(left)
    return [*islands, rest] if len(rest) else islands
