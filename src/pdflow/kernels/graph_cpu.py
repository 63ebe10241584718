"""The neighbour graph of one patch on one core."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.neighbors import knn


def patch_graph(points: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Nearest neighbours in a patch (N, 3), the point itself included, nearest first: (N, k)."""
    if k == 0:
        return np.empty((len(points), 0), np.int64)
    return knn(points, points, k)[1]
