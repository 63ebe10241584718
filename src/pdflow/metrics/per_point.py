"""The error of every point, for example to colour a cloud.

Frame: none; distances are in the units of the input.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.neighbors import knn
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.mesh import TriangleMesh
from pdflow.metrics.inputs import as_points


def point_errors(pred: Any, truth: Any) -> NDArray[np.float64]:
    """Plain distance (M,) from every point to the ground truth, in the units of the input.

    pred   (M, 3)
    truth  a TriangleMesh: exact distance to its surface; or a clean cloud (K, 3): distance to
           its nearest point

    >>> point_errors([[0, 0, 3], [0, 4, 0]], [[0, 0, 0]]).tolist()
    [3.0, 4.0]
    """
    points = as_points(pred, "The prediction")
    if isinstance(truth, TriangleMesh):
        return np.sqrt(closest_on_mesh(points, truth)[0])
    return np.asarray(np.sqrt(knn(as_points(truth, "The clean cloud"), points, 1)[0][:, 0]))
