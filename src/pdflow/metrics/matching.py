"""EMD: the cheapest one-to-one matching of two clouds of equal size.

Frame: the ground-truth points' unit sphere (bounding-box centre, largest radius).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.metrics.inputs import as_points, frame_of_cloud

MOST_POINTS = 4096
"""An exact matching needs cubic time and quadratic memory."""


def earth_movers(pred: Any, clean: Any) -> float:
    """Mean matched distance under the best one-to-one matching (EMD, Eq. 15 over M).

    pred   (M, 3), M <= 4096
    clean  (M, 3)

    Frame: the clean points' unit sphere. Paper: Eq. 15 is the sum; the mean can be compared
    between clouds of different sizes.
    """
    pred, clean = _pair_of_equal_size(pred, clean)
    distances = np.sqrt(_sq_table(pred, clean))
    return float(distances[_match(distances)].mean())


def sq_earth_movers(pred: Any, clean: Any) -> float:
    """Mean squared distance under the matching that minimises it.

    pred and clean (M, 3), M <= 4096. Frame: the clean points' unit sphere.
    """
    sq_distances = _sq_table(*_pair_of_equal_size(pred, clean))
    return float(sq_distances[_match(sq_distances)].mean())


def _pair_of_equal_size(pred: Any, clean: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    pred, clean = as_points(pred, "The prediction"), as_points(clean, "The clean cloud")
    if len(pred) != len(clean):
        raise PdflowError(
            f"EMD needs clouds of equal size, but the prediction has {len(pred)} points and the "
            f"clean cloud {len(clean)}: resample one of them first."
        )
    if len(pred) > MOST_POINTS:
        raise PdflowError(
            f"EMD is exact and therefore limited to {MOST_POINTS} points, but the clouds have "
            f"{len(pred)}: subsample both first, or use cd."
        )
    frame = frame_of_cloud(clean)
    return frame.apply(pred), frame.apply(clean)


def _sq_table(pred: NDArray[np.float64], clean: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(pred, clean, "sqeuclidean"))


def _match(cost: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(cost)
    return rows, columns
