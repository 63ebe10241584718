"""The unit-sphere frame, which makes clouds of any size and place comparable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, finite_points
from pdflow.parallel import run_in_threads

_POINTS_IN_CACHE = 65_536


@dataclass(frozen=True)
class Frame:
    """A centre (3,), which is subtracted from a cloud, and a scale, which divides it.

    >>> frame = Frame(np.array([1.0, 0.0, 0.0]), 2.0)
    >>> frame.apply([[3.0, 0.0, 0.0]]).tolist(), frame.undo([[1.0, 0.0, 0.0]]).tolist()
    ([[1.0, 0.0, 0.0]], [[3.0, 0.0, 0.0]])
    """

    center: FloatArray
    scale: float

    def apply(self, points: ArrayLike) -> FloatArray:
        """Points (M, 3) of the cloud's frame in the unit sphere's."""
        return np.asarray((np.asarray(points, dtype=np.float64) - self.center) / self.scale)

    def undo(self, points: ArrayLike) -> FloatArray:
        """Points (M, 3) of the unit sphere's frame in the cloud's."""
        return np.asarray(np.asarray(points, dtype=np.float64) * self.scale + self.center)


def unit_sphere(points: ArrayLike) -> Frame:
    """The frame that puts `points` (M, 3) into the unit sphere.

    The centre is that of the bounding box and the scale the largest distance from it, as in the
    paper's metrics. It is not the smallest enclosing sphere, but published figures use it. A cloud
    without extent has scale 1, so `apply` only centres it.

    >>> unit_sphere([[0, 0, 0], [4, 0, 0]])
    Frame(center=array([2., 0., 0.]), scale=2.0)
    """
    cloud = finite_points(points)
    if len(cloud) == 0:
        raise PdflowError("A cloud without points has no unit sphere: give at least one point.")
    # Contiguous columns are much faster to reduce than rows of three.
    parts = [
        slice(first, first + _POINTS_IN_CACHE) for first in range(0, len(cloud), _POINTS_IN_CACHE)
    ]
    bounds = np.empty((len(parts), 2, 3))

    def bound(start: int, stop: int) -> None:
        for part in range(start, stop):
            columns = np.ascontiguousarray(cloud[parts[part]].T)
            bounds[part] = columns.min(axis=1), columns.max(axis=1)

    run_in_threads(bound, len(parts), grain=1)
    low, high = bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0)
    # Adding halves, rather than halving the sum, keeps the largest coordinates finite.
    center = low / 2 + high / 2
    # Squares of tiny numbers underflow to 0, so distances are measured in extents.
    extent = float((high - low).max()) or 1.0
    largest = np.empty(len(parts))

    def measure(start: int, stop: int) -> None:
        for part in range(start, stop):
            columns = np.ascontiguousarray(cloud[parts[part]].T)
            x, y, z = (columns - center[:, None]) / extent
            largest[part] = (x * x + y * y + z * z).max()

    run_in_threads(measure, len(parts), grain=1)
    scale = extent * float(np.sqrt(largest.max()))
    return Frame(center, scale if scale > 0 else 1.0)
