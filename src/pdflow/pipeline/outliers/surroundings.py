"""What surrounds a point, in numbers by which outliers differ from points of a surface."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.normals import diagonalise, least_and_most
from pdflow.parallel import run_in_threads

NEIGHBOURS = 48
"""Points around a place that are described: more than most clumps of outliers have."""

REACHES = (2, 4, 8, 16, 32, 48)
"""Neighbours whose distance is described."""

SPACING = REACHES.index(8)
"""The number that says how densely points lie."""

LAYERS = (12, 24, 48)
"""Sizes of the neighbourhoods that planes are fitted to; each is one of REACHES or between."""

PLANE = 24
"""The layer onto whose plane a point is projected."""

NUMBERS = len(REACHES) + 5 * len(LAYERS)
"""Numbers that describe what surrounds a point."""

THICKNESSES = tuple(len(REACHES) + 5 * layer for layer in range(len(LAYERS)))
"""The numbers that say how thick the layers are."""

BREADTH, ACROSS = THICKNESSES[1] + 1, THICKNESSES[1] + 3
"""The breadth of the second layer, and how far off it the point lies."""

SAMPLED = 16
"""Neighbours, evenly spread over all, that a point is compared with."""

FLOOR = 0.01
"""Smallest length that is told from 0, in distances to neighbour 8: it hides rounding."""

_QUERIES_IN_CACHE = 2048

Rows = NDArray[np.int32]


def describe(
    search: NeighborSearch, points: FloatArray, places: FloatArray
) -> tuple[NDArray[np.float32], Rows, FloatArray]:
    """Describe what lies around places (Q, 3), and how points (Q, 3) lie to it.

    points  that are judged; none is a neighbour of its own place
    places  where the neighbours are looked for: the points themselves, or near them

    Returns logarithms of lengths (Q, NUMBERS), rows of the search (Q, SAMPLED) around each place,
    and the points projected onto the planes around their places (Q, 3). The lengths are distances
    to neighbours and, for each of LAYERS,

        thickness, breadth and length of the neighbours (standard deviations along their axes);
        how far the point lies off their middle, across the layer and in all
    """
    numbers = np.empty((len(places), NUMBERS), np.float32)
    sampled = np.empty((len(places), SAMPLED), np.int32)
    feet = np.empty((len(places), 3))

    def fill(start: int, stop: int) -> None:
        for first in range(start, stop, _QUERIES_IN_CACHE):
            part = slice(first, min(first + _QUERIES_IN_CACHE, stop))
            count = min(NEIGHBOURS + 1, len(search))
            sq_distances, rows = search.knn(places[part], count)
            _describe(
                search.points, points[part], sq_distances, rows,
                numbers[part], sampled[part], feet[part],
            )  # fmt: skip

    run_in_threads(fill, len(places), grain=1024)
    return numbers, sampled, feet


@compiled
def _describe(
    cloud: FloatArray,
    points: FloatArray,
    sq_distances: FloatArray,
    rows: IntArray,
    numbers: NDArray[np.float32],
    sampled: Rows,
    feet: FloatArray,
) -> None:
    matrix, axes = np.empty((3, 3)), np.empty((3, 3))
    total, products, offset = np.empty(3), np.empty((3, 3)), np.empty(3)
    near = np.empty(NEIGHBOURS, np.int64)
    sq_near = np.empty(NEIGHBOURS)
    for query in range(len(points)):
        found = 0
        for k in range(rows.shape[1]):
            other = rows[query, k]
            own = (
                cloud[other, 0] == points[query, 0]
                and cloud[other, 1] == points[query, 1]
                and cloud[other, 2] == points[query, 2]
            )
            if not own and found < NEIGHBOURS:
                near[found], sq_near[found] = other, sq_distances[query, k]
                found += 1
        for k in range(SAMPLED):
            sampled[query, k] = near[min((NEIGHBOURS // SAMPLED) * k, found - 1)]
        spacing = max(math.sqrt(sq_near[min(8, found) - 1]), 1e-150)
        column = 0
        for k in REACHES:
            reach = math.sqrt(sq_near[min(k, found) - 1])
            numbers[query, column] = math.log(reach + FLOOR * spacing)
            column += 1
        total[:] = 0.0
        products[:] = 0.0
        first = 0
        for size in LAYERS:
            last = min(size, found)
            for k in range(first, last):
                for i in range(3):
                    offset[i] = cloud[near[k], i] - points[query, i]
                for i in range(3):
                    total[i] += offset[i]
                    for j in range(i + 1):
                        products[i, j] += offset[i] * offset[j]
            first = last
            for i in range(3):
                for j in range(i + 1):
                    matrix[i, j] = products[i, j] / last - total[i] / last * (total[j] / last)
                    matrix[j, i] = matrix[i, j]
            diagonalise(matrix, axes)
            least, most = least_and_most(matrix)
            middle = 3 - least - most
            across, sq_away = 0.0, 0.0
            for i in range(3):
                across += total[i] / last * axes[i, least]
                sq_away += (total[i] / last) ** 2
            if size == PLANE:
                for i in range(3):
                    feet[query, i] = points[query, i] + across * axes[i, least]
            floor = FLOOR * spacing
            numbers[query, column] = math.log(math.sqrt(max(matrix[least, least], 0.0)) + floor)
            numbers[query, column + 1] = math.log(
                math.sqrt(max(matrix[middle, middle], 0.0)) + floor
            )
            numbers[query, column + 2] = math.log(math.sqrt(max(matrix[most, most], 0.0)) + floor)
            numbers[query, column + 3] = math.log(abs(across) + floor)
            numbers[query, column + 4] = math.log(math.sqrt(sq_away) + floor)
            column += 5
