"""Put patches together again: blend what they say of a point, or resample their union."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray
from pdflow.geometry.farthest import farthest_point_sampling
from pdflow.geometry.neighbors import knn
from pdflow.geometry.patches import Patches

STRAYS = 10
"""Points of a resampled cloud that are farthest from the input and are cut, as in the paper."""


def blend(count: int, patches: Patches, moved: FloatArray, sharpness: float) -> FloatArray:
    """Each point's place (M, 3) as the weighted mean of all patches that hold it.

    count      M
    moved      (P, N, 3) what each patch says of its points
    sharpness  weights are exp(-sharpness d^2 / r^2) at distance d from the seed of a patch of
               radius r: a point counts most where it is central and its neighbourhood whole
    """
    sq_radii = np.maximum(patches.sq_distances.max(axis=1, keepdims=True), np.finfo(float).tiny)
    weights = np.exp(-sharpness * patches.sq_distances / sq_radii).ravel()
    rows = patches.rows.ravel()
    total = np.bincount(rows, weights, count)
    channels = [
        np.bincount(rows, weights * channel, count) / total for channel in moved.reshape(-1, 3).T
    ]
    return np.stack(channels, axis=1)


def resample(points: FloatArray, moved: FloatArray, count: int) -> FloatArray:
    """`count` points (count, 3) spread evenly over the union of all patches.

    points  (M, 3) the input, against which strays are recognised
    moved   (P, N, 3) what the patches say
    """
    union = moved.reshape(-1, 3)
    spare = min(STRAYS, len(union) - count)
    picked = union[farthest_point_sampling(union, count + spare)]
    if spare == 0:
        return picked
    sq_distances = knn(points, picked, 1)[0][:, 0]
    nearest = np.sort(np.argsort(sq_distances, kind="stable")[:count])
    return picked[nearest]
