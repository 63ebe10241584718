"""Put patches together again: blend what they say of a point, or resample their union."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.compiled import compiled
from pdflow.geometry.farthest import farthest_point_sampling
from pdflow.geometry.neighbors import knn
from pdflow.geometry.patches import Patches
from pdflow.parallel import run_in_threads

STRAYS = 10
"""Points of a resampled cloud that are farthest from the input and are cut, as in the paper."""


CENTRAL = 0.5
"""Share of its best weight that a point must have in a patch for that patch to be believed."""


def blend(count: int, patches: Patches, moved: FloatArray, sharpness: float) -> FloatArray:
    """Each point's place (M, 3) as the weighted mean of all patches that hold it.

    count      M
    moved      (P, N, 3) what each patch says of its points
    sharpness  weights are exp(-sharpness d^2 / r^2) at distance d from the seed of a patch of
               radius r: a point counts most where it is central and its neighbourhood whole
    """
    return _blend(count, patches.rows, _weights(patches, sharpness), moved)


@compiled
def _blend(count: int, rows: IntArray, weights: FloatArray, moved: FloatArray) -> FloatArray:
    """Weighted means (M, 3), each summed in the order of the patches, in one pass over them.

    The sum of the weights lies beside those of the coordinates: points come in any order, and
    each costs one look into memory.
    """
    sums = np.zeros((count, 4))
    for patch in range(len(rows)):
        for place in range(rows.shape[1]):
            point, weight = sums[rows[patch, place]], weights[patch, place]
            for axis in range(3):
                point[axis] += weight * moved[patch, place, axis]
            point[3] += weight
    return sums[:, :3] / sums[:, 3:]


def resample(
    points: FloatArray, patches: Patches, moved: FloatArray, count: int, sharpness: float
) -> FloatArray:
    """`count` points (count, 3) spread evenly over the union of all patches.

    points     (M, 3) the input, against which strays are recognised
    moved      (P, N, 3) what the patches say
    sharpness  of the weights of `blend`: where a point has less than CENTRAL of its best weight,
               the patch says nothing of it, unless `count` needs every place there is

    Paper: all of the union is sampled. Even sampling picks the worst places first, for they lie
    apart, and those are at the rims of patches.
    """
    weights = _weights(patches, sharpness)
    best = np.zeros(len(points))
    np.maximum.at(best, patches.rows.ravel(), weights.ravel())
    union = moved[weights >= CENTRAL * best[patches.rows]]
    if len(union) < count:
        union = moved.reshape(-1, 3)
    spare = min(STRAYS, len(union) - count)
    picked = union[farthest_point_sampling(union, count + spare)]
    if spare == 0:
        return picked
    sq_distances = knn(points, picked, 1)[0][:, 0]
    nearest = np.sort(np.argsort(sq_distances, kind="stable")[:count])
    return picked[nearest]


def _weights(patches: Patches, sharpness: float) -> FloatArray:
    """(P, N): how much each patch counts for each of its points."""
    weights = np.empty_like(patches.sq_distances)

    def fill(start: int, stop: int) -> None:
        sq_distances = patches.sq_distances[start:stop]
        sq_radii = np.maximum(sq_distances.max(axis=1, keepdims=True), np.finfo(float).tiny)
        weights[start:stop] = np.exp(-sharpness * sq_distances / sq_radii)

    run_in_threads(fill, len(weights), grain=16)
    return weights
