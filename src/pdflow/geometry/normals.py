"""Normals of a cloud, from planes fitted to nearby points."""

from __future__ import annotations

import math

import numpy as np

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.parallel import run_in_threads

NEIGHBOURS = 16
"""Nearest points that a plane is fitted to."""

_PLACES_IN_MEMORY = 2**15

_SWEEPS = 8


def fit_normals(points: FloatArray, places: FloatArray, neighbours: int = NEIGHBOURS) -> FloatArray:
    """Unit normals (Q, 3), of either sign: the direction in which nearby points vary least.

    points      (M, 3) the cloud
    places      (Q, 3) where to fit a plane
    neighbours  number of nearest points in each fit
    """
    return fit_planes(NeighborSearch(points), places, neighbours)[0]


def fit_planes(
    search: NeighborSearch, places: FloatArray, neighbours: int = NEIGHBOURS
) -> tuple[FloatArray, FloatArray]:
    """Normals (Q, 3) like `fit_normals`, and the breadth (Q,) of the points of each plane.

    Breadth is their variance along the shorter direction over that along the longer one: 0 for
    points on a line.
    """
    normals, breadths = np.empty((len(places), 3)), np.empty(len(places))
    turns, count = search.turns(places), min(neighbours, len(search))
    for first in range(0, len(places), _PLACES_IN_MEMORY):
        some = turns[first : first + _PLACES_IN_MEMORY]
        near = search.knn(places[some], count)[1]
        run_in_threads(_fill_planes, len(some), search.points, near, some, normals, breadths)
    return normals, breadths


@compiled
def _fill_planes(
    start: int,
    stop: int,
    points: FloatArray,
    near: IntArray,
    rows: IntArray,
    normals: FloatArray,
    breadths: FloatArray,
) -> None:
    """Planes through the points named in places `start` to `stop - 1` of `near` (q, K); the results
    of each go to its row of `normals` and `breadths`."""
    matrix = np.empty((3, 3))
    axes = np.empty((3, 3))
    middle = np.empty(3)
    count = near.shape[1]
    for place in range(start, stop):
        row = rows[place]
        for i in range(3):
            middle[i] = 0.0
            for k in range(count):
                middle[i] += points[near[place, k], i]
            middle[i] /= count
        for i in range(3):
            for j in range(i, 3):
                total = 0.0
                for k in range(count):
                    other = near[place, k]
                    total += (points[other, i] - middle[i]) * (points[other, j] - middle[j])
                matrix[i, j] = total
                matrix[j, i] = total
        diagonalise(matrix, axes)
        least, most = least_and_most(matrix)
        for i in range(3):
            normals[row, i] = axes[i, least]
        across = matrix[3 - least - most, 3 - least - most]
        breadths[row] = across / matrix[most, most] if matrix[most, most] > 0.0 else 0.0


@compiled
def least_and_most(matrix: FloatArray) -> tuple[int, int]:
    """The places of the least and the greatest entry on the diagonal of a matrix (3, 3)."""
    least, most = 0, 0
    for i in range(1, 3):
        if matrix[i, i] < matrix[least, least]:
            least = i
        if matrix[i, i] >= matrix[most, most]:
            most = i
    return least, most


@compiled
def diagonalise(matrix: FloatArray, axes: FloatArray) -> None:
    """Rotate a symmetric 3 x 3 matrix, in place, until it is diagonal.

    axes  (3, 3) receives the eigenvectors as columns

    Jacobi's method: each rotation in a plane of two axes makes one pair of entries zero.
    """
    for i in range(3):
        for j in range(3):
            axes[i, j] = 1.0 if i == j else 0.0
    for _ in range(_SWEEPS):
        off = abs(matrix[0, 1]) + abs(matrix[0, 2]) + abs(matrix[1, 2])
        if off <= 1e-15 * (abs(matrix[0, 0]) + abs(matrix[1, 1]) + abs(matrix[2, 2])):
            return
        for p in range(2):
            for q in range(p + 1, 3):
                if matrix[p, q] == 0.0:
                    continue
                slope = (matrix[q, q] - matrix[p, p]) / (2.0 * matrix[p, q])
                tangent = 1.0 / (abs(slope) + math.sqrt(slope * slope + 1.0))
                if slope < 0.0:
                    tangent = -tangent
                cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
                sine = tangent * cosine
                for k in range(3):
                    a, b = matrix[k, p], matrix[k, q]
                    matrix[k, p], matrix[k, q] = cosine * a - sine * b, sine * a + cosine * b
                for k in range(3):
                    a, b = matrix[p, k], matrix[q, k]
                    matrix[p, k], matrix[q, k] = cosine * a - sine * b, sine * a + cosine * b
                for k in range(3):
                    a, b = axes[k, p], axes[k, q]
                    axes[k, p], axes[k, q] = cosine * a - sine * b, sine * a + cosine * b
