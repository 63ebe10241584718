"""Put patches together again: blend what they say of a point, or resample their union."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray
from pdflow.geometry.farthest import farthest_point_sampling
from pdflow.geometry.neighbors import knn
from pdflow.geometry.patches import Patches

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
    weights = _weights(patches, sharpness).ravel()
    rows = patches.rows.ravel()
    total = np.bincount(rows, weights, count)
    channels = [
        np.bincount(rows, weights * channel, count) / total for channel in moved.reshape(-1, 3).T
    ]
    return np.stack(channels, axis=1)


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
    sq_radii = np.maximum(patches.sq_distances.max(axis=1, keepdims=True), np.finfo(float).tiny)
    return np.asarray(np.exp(-sharpness * patches.sq_distances / sq_radii))
