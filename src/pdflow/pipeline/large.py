"""Large clouds: every choice is local or made once for the whole cloud.

So a part of a large cloud, together with its surroundings, gives the same result as all of it, and
clouds that do not fit in memory can be denoised part by part (`pdflow.tiles`). Seeds of patches and
partitions are chosen cell by cell. The noise level, the plan and the limit for outliers come from a
sample of cells. Small clouds are one cell and their own sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.arrays import IntArray, bounding_box
from pdflow.geometry.cells import Cells, make_cells
from pdflow.geometry.frame import Frame, unit_sphere
from pdflow.geometry.morton import Grid
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.pipeline.normalise import Normalised
from pdflow.pipeline.outliers.evidence import THINNED

LARGE = 2**18
"""Clouds of more points are large."""

CELL = 2**15
"""Most points of a cell: patches around seeds that are chosen cell by cell are as many, and leave
as few points uncovered, as with farthest-point seeds of the whole cloud."""

SAMPLE = 2**20
"""Points of the sample that decides for the whole cloud; a smaller cloud is its own sample."""

PROBE_STEP = 64
"""Every so many rows, a point probes the tangential motion around it."""


@dataclass(frozen=True)
class Layout:
    """Where points of a large cloud belong, whether all of them are in memory or some.

    rows     (m,) rows of the points in the cloud
    cells    (m,) their cells; None for a component, which is smaller than a patch
    grid     the Morton curve of the cells
    sphere   the unit-sphere frame of the cloud
    wanted   (m,) which points must be moved; None for all
    sampled  (m,) which points belong to the sample; None for all
    """

    rows: IntArray
    cells: IntArray | None
    grid: Grid
    sphere: Frame
    wanted: NDArray[np.bool_] | None = None
    sampled: NDArray[np.bool_] | None = None

    def take(self, some: IntArray | NDArray[np.bool_]) -> Layout:
        """The layout of some of the points, which a mask (m,) or rows name."""
        if some.dtype == np.bool_ and some.all():
            return self

        def pick(values: NDArray | None) -> NDArray | None:
            return None if values is None else values[some]

        return replace(
            self,
            rows=self.rows[some],
            cells=pick(self.cells),
            wanted=pick(self.wanted),
            sampled=pick(self.sampled),
        )

    @property
    def probes(self) -> NDArray[np.bool_]:
        """(m,): which points probe the tangential motion."""
        return np.asarray(self.rows % PROBE_STEP == 0)

    @property
    def thin(self) -> NDArray[np.bool_]:
        """(m,): every fourth point of each cell, in the order of rows."""
        cells = np.zeros(len(self.rows), np.int64) if self.cells is None else self.cells
        order = np.lexsort((self.rows, cells))
        _, starts, counts = np.unique(cells[order], return_index=True, return_counts=True)
        thin = np.empty(len(order), dtype=bool)
        thin[order] = (np.arange(len(order)) - np.repeat(starts, counts)) % THINNED == 0
        return thin

    def sample(self, search: NeighborSearch) -> NeighborSearch:
        """The search of the sample, from that of the points."""
        return search if self.sampled is None else NeighborSearch(search.points[self.sampled])


def is_large(count: int) -> bool:
    """Whether a cloud of `count` points is large."""
    return count > LARGE


def lay_out(given: Normalised) -> Layout | None:
    """The layout of the different points of a cloud; None if it is not large."""
    points = given.points
    if not is_large(len(points)):
        return None
    grid = Grid.over(*bounding_box(points))
    cells = make_cells(lambda: [points], grid, CELL)
    of_points = cells.of(given.different)
    sampled = None
    if len(points) > SAMPLE:
        sampled = np.isin(of_points, sampled_cells(cells))
    sphere = unit_sphere(points)
    return Layout(given.first_rows, of_points, grid, sphere, sampled=sampled)


def sampled_cells(cells: Cells) -> IntArray:
    """The cells of the sample: all, or evenly spread ones with about SAMPLE points."""
    step = -(-int(cells.counts.sum()) // SAMPLE)
    return np.arange(0, len(cells), step)
