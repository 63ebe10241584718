"""Connected components: groups of points so far apart that no patch should span two of them."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.patches import Patches
from pdflow.parallel import fill_rows

FEWEST_POINTS = 64
"""A component of fewer points does not show a surface."""

GAP = 2.0
"""A component ends where the next point is this many times as far from a seed as the last."""

FEWEST_CONNECTED = 13
WIDE_GAP = 10.0
"""Components of FEWEST_CONNECTED to FEWEST_POINTS points need a gap this wide."""

_PATCHES_IN_CACHE = 64


def points_within_reach(sq_distances: FloatArray) -> IntArray:
    """(P,): how many neighbours lie before the first wide gap.

    sq_distances  (P, N) from seeds, ascending

    Scanners leave gaps on surfaces, so close to a seed only very wide gaps count.
    """
    count = sq_distances.shape[1]
    places = np.arange(FEWEST_CONNECTED, count)
    if len(places) == 0:
        return np.full(len(sq_distances), count)
    sq_gaps = np.where(places < FEWEST_POINTS, WIDE_GAP, GAP) ** 2

    def reached(part: slice) -> IntArray:
        last = sq_distances[part, FEWEST_CONNECTED - 1 : -1]
        wide = sq_distances[part, FEWEST_CONNECTED:] > sq_gaps * last
        return np.asarray(np.where(wide.any(axis=1), places[wide.argmax(axis=1)], count))

    return fill_rows(np.empty(len(sq_distances), np.int64), reached, _PATCHES_IN_CACHE)


def split_components(patches: Patches, count: int) -> list[IntArray]:
    """Rows of the components that the patches of a cloud of `count` points reveal.

    The remainder comes last; a cloud without small components is one remainder. A component shows
    only if it is smaller than a patch and holds a seed, so the remainder may consist of several.

    A patch across a gap would be as wide as the gap. The surface at its seed would be too small
    in it for a network to see.
    """
    reached = points_within_reach(patches.sq_distances)
    remaining = np.ones(count, dtype=bool)
    components = []
    for patch in np.flatnonzero(reached < patches.rows.shape[1]):
        rows = patches.rows[patch, : reached[patch]]
        if remaining[rows].all():
            components.append(np.sort(rows))
            remaining[rows] = False
    remainder = np.flatnonzero(remaining)
    return [*components, remainder] if len(remainder) else components
