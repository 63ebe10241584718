"""Chamfer and Hausdorff distance: from every point to the nearest point of the other cloud.

Frame: the ground-truth points' unit sphere (bounding-box centre, largest radius), for both clouds.
Moving and scaling the pair changes nothing. Rotating it can change the scale of the frame, because
the bounding box does not rotate with it.

Paper: Eq. 22 and 25 print plain norms, but its tables use squared ones; both are here.
"""

from __future__ import annotations

from typing import Any

from pdflow.geometry.neighbors import knn
from pdflow.metrics.inputs import as_points, frame_of_cloud
from pdflow.metrics.two_way import TwoWayDistances


def nearest_distances(pred: Any, clean: Any) -> TwoWayDistances:
    """Measure two clouds once, for all metrics of this family.

    pred   (M, 3)
    clean  (K, 3) ground truth; the frame is its unit sphere
    """
    pred, clean = as_points(pred, "The prediction"), as_points(clean, "The clean cloud")
    frame = frame_of_cloud(clean)
    pred, clean = frame.apply(pred), frame.apply(clean)
    return TwoWayDistances(knn(clean, pred, 1)[0][:, 0], knn(pred, clean, 1)[0][:, 0])


def sq_chamfer(pred: Any, clean: Any) -> float:
    """Chamfer distance of squared distances, the CD of the paper's tables (Eq. 22, squared).

    pred (M, 3), clean (K, 3). Frame: the clean points' unit sphere. Swapping the clouds only
    changes the frame.

    >>> square = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    >>> round(sq_chamfer(square, square), 12)
    0.0
    """
    return nearest_distances(pred, clean).sq_mean


def chamfer(pred: Any, clean: Any) -> float:
    """Chamfer distance of plain distances (Eq. 22 as printed).

    pred (M, 3), clean (K, 3). Frame: the clean points' unit sphere.
    """
    return nearest_distances(pred, clean).mean


def sq_hausdorff(pred: Any, clean: Any) -> float:
    """Squared Hausdorff distance, the HD of the paper's tables (Eq. 25, squared).

    pred (M, 3), clean (K, 3). Frame: the clean points' unit sphere.
    """
    return nearest_distances(pred, clean).sq_largest


def hausdorff(pred: Any, clean: Any) -> float:
    """Hausdorff distance (Eq. 25 as printed).

    pred (M, 3), clean (K, 3). Frame: the clean points' unit sphere.
    """
    return nearest_distances(pred, clean).largest
