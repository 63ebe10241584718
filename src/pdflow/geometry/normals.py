"""Normals of clouds that have none."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray
from pdflow.geometry.neighbors import knn

NEIGHBOURS = 16
"""Nearest points that a plane is fitted to."""

_CHUNK = 1 << 16


def fit_normals(points: FloatArray, places: FloatArray, neighbours: int = NEIGHBOURS) -> FloatArray:
    """Unit normals (Q, 3), of either sign: the direction in which nearby points vary least.

    points      (M, 3) that planes are fitted to
    places      (Q, 3) around which
    neighbours  how many of the nearest points each plane is fitted to
    """
    normals = np.empty_like(places)
    for start in range(0, len(places), _CHUNK):
        part = slice(start, start + _CHUNK)
        near = points[knn(points, places[part], min(neighbours, len(points)))[1]]
        offsets = near - near.mean(1, keepdims=True)
        scatter = offsets.transpose(0, 2, 1) @ offsets
        # The eigenvector of the smallest eigenvalue: eigh sorts them upwards.
        normals[part] = np.linalg.eigh(scatter)[1][:, :, 0]
    return normals
