"""What speaks for an outlier: a point beside its surroundings, its neighbours and the cloud.

All numbers are logarithms of ratios of lengths, or shares. So they do not change with scale, place
or rotation, and since lengths are compared with those at the neighbours, neither with the density
of a scan and the noise of its far parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.parallel import fill_rows
from pdflow.pipeline.outliers.clumps import clump_sizes
from pdflow.pipeline.outliers.surroundings import (
    ACROSS,
    BREADTH,
    REACHES,
    SPACING,
    THICKNESSES,
    Rows,
    describe,
)

COMPARED = (SPACING, len(REACHES) - 1, *THICKNESSES, BREADTH, ACROSS)
"""Numbers of its neighbours that a point is compared with; the first is their spacing."""

THINNED = 4
"""One of so many points is in the coarse cloud, which shows the surroundings at twice the size."""

FEWEST_POINTS = 64
"""Clumps of fewer points are no surface."""

LARGEST_CLUMP = 1000
"""Larger clumps are not told apart by size."""

LARGEST_ODDS = 8.0
"""Log odds beyond this say no more."""

SURFACE, SUSPECT = 0.0, -5.0
"""Points with log odds below SURFACE may be the surface that others are compared with; points
above SUSPECT are judged again."""

Numbers = NDArray[np.floating[Any]]

LEAST_SHARE = 0.003
"""Smallest share of outliers in a cloud that is told from none."""


@dataclass(frozen=True)
class Described:
    """A cloud of M points with what surrounds each of them.

    numbers   (M, NUMBERS) logarithms of lengths
    coarse    (M, NUMBERS) the same in the coarse cloud
    compared  (M, len(COMPARED)) those of the numbers that neighbours are compared with
    sampled   (M, SAMPLED) rows of neighbours
    units     (M,) median log spacing of these
    thin      (M,) points of the coarse cloud
    """

    search: NeighborSearch
    numbers: NDArray[np.float32]
    coarse: NDArray[np.float32]
    compared: NDArray[np.float32]
    sampled: Rows
    units: FloatArray
    thin: NDArray[np.bool_]

    @staticmethod
    def of(search: NeighborSearch, thin: NDArray[np.bool_] | None = None) -> Described:
        """Describe all points of a search; `thin` (M,) chooses the coarse cloud."""
        thin = _thinned(search) if thin is None else thin
        numbers, sampled, _ = describe(search, search.points, search.points)
        coarse, _, _ = describe(search.subset(thin), search.points, search.points)
        compared = np.ascontiguousarray(numbers[:, COMPARED])
        spacings = compared[:, 0]
        units = fill_rows(
            np.empty(len(search)), lambda part: np.median(spacings[sampled[part]], axis=1)
        )
        return Described(search, numbers, coarse, compared, sampled, units, thin)

    def whole(self) -> FloatArray:
        """Spacing, its spread and the thickness of layers, for the whole cloud."""
        low, middle, high = np.quantile(self.compared[:, 0], [0.25, 0.5, 0.75])
        layers = np.median(self.numbers[:, THICKNESSES], axis=0) - middle
        return np.array([middle, high - low, *layers])

    def first(self, whole: FloatArray, rows: IntArray) -> FloatArray:
        """(q, FIRST): what the first round reads of some points.

        whole  what `whole` says of the cloud that these points are a part of
        """
        units, around = self.units[rows], self.compared[self.sampled[rows]]
        return np.column_stack(
            [
                self.numbers[rows] - units[:, None],
                self.coarse[rows] - units[:, None],
                *_beside(around, units),
                units - whole[0],
                np.broadcast_to(whole[1:], (len(rows), len(whole) - 1)),
            ]
        )


@dataclass(frozen=True)
class Surface:
    """The surface as a round sees it.

    mask      (M,) points of it
    sizes     (M,) points of the clump that each point belongs to
    suspects  rows to judge again
    """

    mask: NDArray[np.bool_]
    sizes: IntArray
    suspects: IntArray

    @property
    def is_seen(self) -> bool:
        """Whether there are enough points of it to compare others with."""
        return int(np.count_nonzero(self.mask)) >= FEWEST_POINTS

    @staticmethod
    def of(search: NeighborSearch, odds: FloatArray) -> Surface:
        """The surface by log odds (M,)."""
        likely = odds < SURFACE
        sizes = np.ones(len(search), np.int64)
        if likely.any():
            sizes[likely] = clump_sizes(search.subset(likely))
        mask = sizes >= FEWEST_POINTS
        return Surface(mask, sizes, np.flatnonzero(~mask | (odds > SUSPECT)))


def second(
    cloud: Described,
    whole: FloatArray,
    share: float,
    odds: FloatArray,
    found: Surface,
    rows: IntArray,
) -> FloatArray:
    """(q, SECOND): what the later rounds read of some points.

    whole  what `Described.whole` says of the cloud
    share  of outliers in it
    odds   (M,) log odds of the round before
    found  the surface by these odds
    """
    surface = cloud.search.subset(found.mask)
    compared = cloud.compared[found.mask]
    points, units = cloud.search.points[rows], cloud.units[rows]
    numbers, sampled, feet = describe(surface, points, points)
    # The nearest points are those on the near side of the layer: look again from its middle.
    below, under, feet = describe(surface, points, feet)
    coarse, _, _ = describe(cloud.search.subset(found.mask & cloud.thin), points, feet)
    columns: list[Numbers] = [cloud.first(whole, rows)]
    for values, around in ((numbers, compared[sampled]), (below, compared[under])):
        local = np.median(around[:, :, 0], axis=1)
        columns += [values - local[:, None], *_beside(around, local), local - units]
    columns.append(coarse - local[:, None])
    shares = 1 / (1 + np.exp(-odds))
    near = cloud.sampled[rows]
    sizes = np.log(np.minimum(found.sizes, LARGEST_CLUMP))
    columns += [
        np.clip(odds[rows], -LARGEST_ODDS, LARGEST_ODDS),
        sizes[rows],
        sizes[near].min(axis=1),
        shares[near[:, :4]].mean(axis=1),
        shares[near].mean(axis=1),
        np.full(len(rows), np.log(share + LEAST_SHARE)),
    ]
    return np.column_stack(columns)


def _thinned(search: NeighborSearch) -> NDArray[np.bool_]:
    """(M,): every THINNED-th point, evenly spread over the tree's leaves."""
    thin = np.zeros(len(search), dtype=bool)
    thin[search.tree.order[search.kept][::THINNED]] = True
    return thin


def _beside(around: NDArray[np.float32], units: Numbers) -> list[Numbers]:
    """Columns (q,) about neighbours (q, SAMPLED, len(COMPARED)), in units of their spacing."""
    means = around[:, :, 1:].mean(axis=1) - units[:, None]
    thick = np.median(around[:, :, 3], axis=1) - units
    return [means, around[:, :, 0].std(axis=1), thick]
