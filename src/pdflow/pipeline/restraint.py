"""Restraint: no point moves farther than its own noise explains, and points on no surface stay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.neighbors import NeighborSearch, knn
from pdflow.geometry.tangential import limit_motion
from pdflow.noise.estimate import NoiseEstimate
from pdflow.parallel import fill_rows

MOST_SIGMAS = 5.0
"""Farthest that a point moves, in standard deviations of the noise around it. On held-out training
shapes with 1 to 3 % noise no point in ten thousand moves so far
(`benchmarks/fit/try_restraint.py`)."""

NEIGHBOURS = 16
"""Points, with the point itself, that show whether there is a surface."""

THICK, ROUND = 4.0, 0.3
"""A neighbourhood is no surface if its standard deviation in the thinnest direction is above THICK
sigmas and above ROUND times that in the widest. On surfaces noise explains the former (99.5 % of
the points of training shapes with 1 % noise and more are below 2.7 sigmas), and leaves have a
median of 11. Scan lines are thick where noise is underestimated, but not round."""

RESTLESS = 1.5
"""Root mean square of the moves around a point, in sigmas, above which there was something other
than noise to remove. On surfaces it is about 1."""

FINEST = 0.02
"""Least sigma that thickness is compared with, in distances to the farthest neighbour: below it
nothing moves far enough to do harm."""

SPARSE, BEYOND = 2.0, 10.0
"""A point is isolated if its neighbours reach SPARSE times as far as on an even surface with the
density of a patch, and BEYOND sigmas: noise alone leaves a few points apart, but not so far. So do
at most 0.1 % of the points of training shapes, 1 % of the ground of street scans, and most points
of wires."""

SOFT = 0.1
"""Around each limit, from this share below it to this share above, points are held back in part.
So a tiny change of the input makes a tiny change of the result."""

CLOSE = 6.0
"""Reach, in sigmas, up to which a neighbourhood is neither isolated nor too thick: the standard
deviation in the thinnest direction is at most the reach over the square root of 3."""

PROBES = 2048
"""Points around which the size of a patch is measured."""

REASONS = ("bound", "no_surface", "not_selected", "implausible")
"""Why points are held back, in the order of their codes, from 1."""

_POINTS_IN_MEMORY, _PROBES_IN_MEMORY = 65_536, 4096
_TINY = float(np.finfo(float).tiny)


def hold_back(
    search: NeighborSearch,
    moved: NDArray[np.float64],
    noise: NoiseEstimate,
    max_move: float | None,
    patch_points: int,
    reach: NDArray[np.float64] | None = None,
    probing: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Points without moves that noise does not explain, over all passes together.

    search        of the points before denoising
    moved         (M, 3) the points after it
    max_move      bound on moves; None: MOST_SIGMAS of the noise; infinity holds nothing back
    patch_points  N of the network
    reach         (M,) of the points before denoising (`reach_of`); None if it is not known yet;
                  points with 0 are not looked at
    probing       (M,) around which points the size of a patch is measured; None for some

    Also returns why points were held back (M,): the code of a reason, or 0.
    """
    points, sigma = search.points, noise_around(noise, search.points)
    why = np.zeros(len(points), np.uint8)
    if max_move == np.inf:
        return moved, why
    reach = reach_of(search) if reach is None else reach
    off = find_off_surface(search, moved, sigma, patch_points, reach, probing)
    longest = MOST_SIGMAS * sigma if max_move is None else np.full(len(points), float(max_move))
    kept, some = moved, np.flatnonzero(off)
    if len(some):
        kept = np.array(moved)
        kept[some] = points[some] + (1 - off[some, None]) * (moved[some] - points[some])
    limited, far = limit_motion(points, kept, longest)
    why[off > 0.5], why[far] = code_of("no_surface"), code_of("bound")
    return limited, why


def code_of(reason: str) -> int:
    """The code of one of REASONS."""
    return 1 + REASONS.index(reason)


def count_held_back(why: NDArray[np.uint8]) -> dict[str, int]:
    """How many points were held back for each reason, from codes (M,).

    >>> count_held_back(np.array([0, 2, 2], np.uint8))
    {'bound': 0, 'no_surface': 2, 'not_selected': 0, 'implausible': 0}
    """
    counts = np.bincount(why, minlength=len(REASONS) + 1)[1:].tolist()
    return dict(zip(REASONS, counts, strict=True))


def reach_of(search: NeighborSearch, asked: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
    """(M,): distance from each point to the farthest of its nearest NEIGHBOURS.

    asked  (M,) which points to ask; None for all. The others get 0.
    """
    count = min(NEIGHBOURS, len(search))
    return search.reduce_knn(count, lambda sq_distances, _: np.sqrt(sq_distances[:, -1]), asked)


def find_off_surface(
    search: NeighborSearch,
    moved: NDArray[np.float64],
    sigma: NDArray[np.float64],
    patch_points: int,
    reach: NDArray[np.float64],
    probing: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """(M,): from 0 to 1, whether points lie on no surface, like leaves and wires, and would move
    nevertheless.

    search        of the points before denoising
    moved         (M, 3) the points after it
    sigma         (M,) noise around each
    patch_points  N of the network
    reach         (M,) of the points before denoising (`reach_of`)
    probing       (M,) around which points the size of a patch is measured; None for some

    Sharp edges and thin parts look like leaves where there is little noise, but there the network
    moves points no farther than noise explains.
    """
    points = search.points
    off = np.zeros(len(points))
    count, size = min(NEIGHBOURS, len(points)), min(patch_points, len(points))
    moves = _moves_around(search, moved, count, asked=reach > CLOSE * sigma)
    restless = np.flatnonzero(moves > (1 - SOFT) * RESTLESS * sigma)
    for first in range(0, len(restless), _POINTS_IN_MEMORY):
        rows = restless[first : first + _POINTS_IN_MEMORY]
        unit = np.maximum(sigma[rows], FINEST * reach[rows])
        thin, _, wide = _deviations(points[search.knn(points[rows], count)[1]]).T
        thick = _beyond(moves[rows], RESTLESS * unit)
        off[rows] = thick * _beyond(thin, np.maximum(THICK * unit, ROUND * wide))
    apart = restless[reach[restless] > (1 - SOFT) * BEYOND * sigma[restless]]
    if len(apart):
        even = np.sqrt(count / size) * _patch_radii(search, apart, size, probing)
        alone = _beyond(moves[apart], RESTLESS * sigma[apart])
        alone *= _beyond(reach[apart], np.maximum(SPARSE * even, BEYOND * sigma[apart]))
        off[apart] = np.maximum(off[apart], alone)
    return off


def _patch_radii(
    search: NeighborSearch,
    rows: NDArray[np.int64],
    size: int,
    probing: NDArray[np.bool_] | None,
) -> NDArray[np.float64]:
    """(R,): radius of a patch of `size` points around the probe that is nearest to each row (R,).

    probing  (M,) which points are probes; None for about PROBES of them
    """
    points = search.points
    if probing is None or not probing.any():
        probing = np.arange(len(points)) % max(1, len(points) // PROBES) == 0
    probes = search if probing.all() else NeighborSearch(points[probing])
    asked, probe = np.unique(probes.knn(points[rows], 1)[1][:, 0], return_inverse=True)
    sq_radii = np.empty(len(asked))
    for first in range(0, len(asked), _PROBES_IN_MEMORY):
        part = slice(first, first + _PROBES_IN_MEMORY)
        sq_radii[part] = search.knn(probes.points[asked[part]], size)[0][:, -1]
    return np.asarray(np.sqrt(sq_radii[probe]))


def _beyond(values: NDArray[np.float64], limits: NDArray[np.float64]) -> NDArray[np.float64]:
    """(Q,): whether values (Q,) are above limits (Q,), and a share from 0 to 1 close to them."""
    excess = values - (1 - SOFT) * limits
    return np.asarray(np.clip(excess / np.maximum(2 * SOFT * limits, _TINY), 0, 1))


def _moves_around(
    search: NeighborSearch,
    moved: NDArray[np.float64],
    count: int,
    asked: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """(M,): root mean square of the moves of the `count` points nearest to those that a mask (M,)
    asks about; 0 for the others."""
    sq_moves = np.zeros(len(moved))
    if asked.any():
        fill_rows(sq_moves, lambda part: ((moved[part] - search.points[part]) ** 2).sum(1))
    return search.reduce_knn(count, lambda _, near: np.sqrt(sq_moves[near].mean(1)), asked)


def _deviations(neighbors: NDArray[np.float64]) -> NDArray[np.float64]:
    """(Q, 3): standard deviations of points (Q, K, 3) along their principal axes, least first."""
    centered = neighbors - neighbors.mean(axis=1, keepdims=True)
    covariance = centered.transpose(0, 2, 1) @ centered / (neighbors.shape[1] - 1)
    return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(covariance), 0)))


def noise_around(noise: NoiseEstimate, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """(M,): the noise at points (M, 3): that at the nearest query.

    `NoiseEstimate.at` asks many queries for each place, which takes too long for all points.

    >>> noise_around(NoiseEstimate(0.1, 0.1, 1.0, True), np.zeros((2, 3)))
    array([0.1, 0.1])
    """
    if not len(noise.queries):
        return np.full(len(points), noise.sigma)
    levels = noise.at(noise.queries)
    if (levels == noise.sigma).all():
        return np.full(len(points), noise.sigma)
    return np.asarray(levels[knn(noise.queries, points, 1)[1][:, 0]])
