"""The unit-sphere frame, which makes clouds of any size and place comparable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, bounding_box, finite_points
from pdflow.parallel import fill_rows


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


def middle(low: FloatArray, high: FloatArray) -> FloatArray:
    """The centre (3,) of a box, from two of its corners.

    >>> middle(np.array([0.0, 0, 0]), np.array([4.0, 2, 0])).tolist()
    [2.0, 1.0, 0.0]
    """
    # Adding halves, rather than halving the sum, keeps the largest coordinates finite.
    return low / 2 + high / 2


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
    low, high = bounding_box(cloud)
    center = middle(low, high)
    # Squares of tiny numbers underflow to 0, so distances are measured in extents.
    extent = float((high - low).max()) or 1.0

    def sq_lengths(part: slice) -> FloatArray:
        # Contiguous columns are much faster to add than rows of three.
        columns = np.ascontiguousarray(cloud[part].T)
        x, y, z = (columns - center[:, None]) / extent
        return np.asarray(x * x + y * y + z * z)

    largest = fill_rows(np.empty(len(cloud)), sq_lengths).max()
    scale = extent * float(np.sqrt(largest))
    return Frame(center, scale if scale > 0 else 1.0)
