"""First and last stage: a cloud around its centre with each place once, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.geometry.arrays import bounding_box, finite_points
from pdflow.geometry.distinct import distinct, nearly_equal
from pdflow.geometry.frame import middle
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.parallel import fill_rows


@dataclass(frozen=True)
class Normalised:
    """A cloud around its centre, where coordinates keep all their digits wherever on earth it is.

    points     (M, 3) the cloud, shifted
    center     (3,) of its bounding box
    different  (U, 3) its points, each place once
    place      (M,) row of each point among the different ones
    """

    points: NDArray[np.float64]
    center: NDArray[np.float64]
    different: NDArray[np.float64]
    place: NDArray[np.int64]

    def spread(self, moved: NDArray[np.float64]) -> NDArray[np.float64]:
        """(M, 3): all points, when the different ones are at `moved` (U, 3).

        Points that are nearly equal move alike.
        """

        def move(part: slice) -> NDArray[np.float64]:
            points, place = self.points[part], self.place[part]
            before, after = self.different[place], moved[place]
            same = (before == points).all(axis=1, keepdims=True)
            still = (before == after).all(axis=1, keepdims=True)
            return np.where(same, after, np.where(still, points, points + (after - before)))

        return fill_rows(np.empty_like(self.points), move)

    @property
    def first_rows(self) -> NDArray[np.int64]:
        """(U,): the first row of the cloud at each of the different points."""
        if len(self.different) == len(self.place):
            return np.arange(len(self.place))
        return np.flatnonzero(np.diff(np.maximum.accumulate(self.place), prepend=-1))

    def restore(
        self, cloud: PointCloud, rows: NDArray[np.int64] | slice, moved: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Points `moved` (m, 3) in the cloud's own frame.

        rows  of the cloud that they come from; a point that did not move keeps its bits
        """
        kept = cloud.points[rows]
        given = self.points[rows]

        def place(part: slice) -> NDArray[np.float64]:
            still = (moved[part] == given[part]).all(axis=1, keepdims=True)
            return np.where(still, kept[part], moved[part] + self.center)

        return fill_rows(np.empty_like(moved), place)


def normalise(cloud: PointCloud, merge: bool = False) -> tuple[Normalised, NeighborSearch]:
    """A normalised cloud and the search of its different points.

    merge  whether points that are nearly equal become one

    NaN, infinite coordinates and clouds without points are refused.
    """
    if not len(cloud):
        raise PdflowError("The cloud has no points: give at least one.")
    center = middle(*bounding_box(finite_points(cloud.points)))
    points = fill_rows(np.empty_like(cloud.points), lambda part: cloud.points[part] - center)
    different, place = distinct(points)
    search = NeighborSearch(different)
    if merge:
        twins = nearly_equal(search)
        is_first = twins == np.arange(len(twins))
        if not is_first.all():
            search = NeighborSearch(different[is_first])
            place = (np.cumsum(is_first) - 1)[twins[place]]
    return Normalised(points, center, search.points, place), search
