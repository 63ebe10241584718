"""First and last stage: a cloud around its centre with each place once, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.geometry.distinct import distinct
from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.parallel import fill_rows


@dataclass(frozen=True)
class Normalised:
    """A cloud around its centre, where coordinates keep all their digits wherever on earth it is.

    points  (M, 3) the cloud, shifted
    center  (3,) of its bounding box
    search  of its different points (U, 3)
    place   (M,) row of each point among the different ones
    """

    points: NDArray[np.float64]
    center: NDArray[np.float64]
    search: NeighborSearch
    place: NDArray[np.int64]

    @staticmethod
    def of(cloud: PointCloud) -> Normalised:
        """Normalise a cloud; NaN and infinite coordinates are refused."""
        center = unit_sphere(cloud.points).center
        points = fill_rows(np.empty_like(cloud.points), lambda part: cloud.points[part] - center)
        different, place = distinct(points)
        return Normalised(points, center, NeighborSearch(different), place)

    @property
    def first_rows(self) -> NDArray[np.int64]:
        """(U,): the first row of the cloud at each of the different points."""
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
