"""Stitch patches into a cloud: blend their predictions for each point, or resample their union."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.farthest import farthest_point_sampling
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.patches import Patches
from pdflow.parallel import run_in_threads

_POINTS_PER_BLOCK = 65_536

TRIMMED = 10
"""Resampled points that are farthest from the input and dropped, as in the paper."""

CENTRAL = 0.5
"""A patch contributes a point only if its weight there is this share of the point's best."""


def blend(
    search: NeighborSearch, patches: Patches, moved: FloatArray, count: int, sharpness: float
) -> FloatArray:
    """Each point (M, 3) as the weighted mean of the predictions of all patches that hold it.

    count      M: every point keeps its row
    moved      (P, N, 3) predictions of each patch
    sharpness  of `Patches.weights`
    """
    return _blend_all(patches.rows, patches.weights(sharpness), moved, count)


def blend_held(
    points: FloatArray, patches: Patches, moved: FloatArray, sharpness: float
) -> FloatArray:
    """`blend` for patches that cover only some of the points (M, 3): the others stay."""
    held = np.zeros(len(points), dtype=bool)
    held[patches.rows] = True
    rows = (np.cumsum(held) - 1)[patches.rows]
    result = np.array(points)
    result[held] = _blend_all(rows, patches.weights(sharpness), moved, int(np.count_nonzero(held)))
    return result


def _blend_all(rows: IntArray, weights: FloatArray, moved: FloatArray, count: int) -> FloatArray:
    blended = np.empty((count, 3))
    blocks = -(-count // _POINTS_PER_BLOCK)
    run_in_threads(_blend, blocks, rows, weights, moved, blended, grain=1)
    return blended


@compiled
def _blend(
    start: int,
    stop: int,
    rows: IntArray,
    weights: FloatArray,
    moved: FloatArray,
    blended: FloatArray,
) -> None:
    """Weighted means of the blocks `start` to `stop - 1`, each summed in the order of the patches.

    All patches are read in one pass. The sum of the weights is stored beside those of the
    coordinates: points come in any order, and each then costs one memory access.
    """
    first = start * _POINTS_PER_BLOCK
    count = min(stop * _POINTS_PER_BLOCK, len(blended)) - first
    if count <= 0:
        return
    sums = np.zeros((count, 4))
    for patch in range(len(rows)):
        for place in range(rows.shape[1]):
            row = rows[patch, place] - first
            if 0 <= row < count:
                weight = weights[patch, place]
                for axis in range(3):
                    sums[row, axis] += weight * moved[patch, place, axis]
                sums[row, 3] += weight
    for row in range(count):
        for axis in range(3):
            blended[first + row, axis] = sums[row, axis] / sums[row, 3]


def sq_disagreement(
    patches: Patches, moved: FloatArray, blended: FloatArray, sharpness: float
) -> FloatArray:
    """(M,): weighted mean squared distance of the predictions for each point from their mean.

    moved    (P, N, 3) predictions of each patch
    blended  (M, 3) their weighted means, from `blend` or `blend_held`

    It is 0 for points that no patch holds.
    """
    weights, rows = patches.weights(sharpness).ravel(), patches.rows.ravel()
    sq_distances = ((moved - blended[patches.rows]) ** 2).sum(axis=2).ravel()
    total = np.bincount(rows, weights, len(blended))
    summed = np.bincount(rows, weights * sq_distances, len(blended))
    return np.asarray(summed / np.where(total > 0, total, 1.0))


def resample(
    search: NeighborSearch, patches: Patches, moved: FloatArray, count: int, sharpness: float
) -> FloatArray:
    """`count` points (count, 3) spread evenly over the union of all patches.

    search     of the input; the TRIMMED points farthest from it are dropped
    moved      (P, N, 3) predictions of each patch
    sharpness  of `Patches.weights`; predictions with less than CENTRAL of a point's best weight
               are left out unless `count` needs them

    Paper: the whole union is sampled. But farthest point sampling prefers points that lie apart,
    so it picks bad predictions first, and most of these are at the rims of patches.
    """
    weights = patches.weights(sharpness)
    best = np.zeros(len(search))
    np.maximum.at(best, patches.rows.ravel(), weights.ravel())
    union = moved[weights >= CENTRAL * best[patches.rows]]
    if len(union) < count:
        union = moved.reshape(-1, 3)
    spare = min(TRIMMED, len(union) - count)
    picked = union[farthest_point_sampling(union, count + spare)]
    if spare == 0:
        return picked
    sq_distances = search.knn(picked, 1)[0][:, 0]
    nearest = np.sort(np.argsort(sq_distances, kind="stable")[:count])
    return picked[nearest]


Stitcher = Callable[[NeighborSearch, Patches, FloatArray, int, float], FloatArray]
"""(search, patches, moved, count, sharpness) -> points (count, 3), like `blend` and `resample`."""

STITCHERS: dict[str, Stitcher] = {"points": blend, "resample": resample}
"""How the patches of each mode become a cloud again."""
