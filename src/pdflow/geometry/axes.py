"""Principal axes, which turn with a cloud: whatever is done along them does not depend on rotation.

An axis has two directions. It points to where points reach farther (the sign of their third
moment), so axes are mirrored with a cloud, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, bounding_box
from pdflow.geometry.normals import diagonalise, least_and_most
from pdflow.parallel import run_in_threads

ROUNDING = 2.0**-32
"""Sums over points are rounded to this share of their size."""

_POINTS_PER_BLOCK = 16_384

_FEW_PATCHES = 8
"""Patches that a second thread is not worth."""


@dataclass(frozen=True)
class OwnFrame:
    """The frame of a cloud that turns, moves and grows with it.

    center  (3,) its mean
    scale   root mean square distance from the mean; 1 for a cloud without extent
    axes    (3, 3) its principal axes as columns, the direction of the least variance first
    """

    center: FloatArray
    scale: float
    axes: FloatArray

    @staticmethod
    def of(points: FloatArray) -> OwnFrame:
        """The frame of points (M, 3).

        >>> frame = OwnFrame.of(np.array([[0.0, 0, 0], [1, 0, 0], [4, 0, 0], [1, 2, 0]]))
        >>> frame.center.tolist(), frame.axes[:, 0].round(3).tolist()
        ([1.5, 0.5, 0.0], [0.0, 0.0, 1.0])
        """
        low, high = bounding_box(points)
        # Squares of tiny numbers underflow to 0, so distances are measured in extents.
        extent = float((high - low).max()) or 1.0
        blocks = -(-len(points) // _POINTS_PER_BLOCK)
        sums = np.empty((blocks, 9))
        run_in_threads(_sum_products, blocks, points, low, extent, sums, grain=1)
        mean, products = np.split(sums.sum(axis=0) / len(points), [3])
        center = _rounded(mean)
        matrix = np.zeros((3, 3))
        matrix[np.triu_indices(3)] = products
        matrix -= np.outer(mean, mean)
        scale = float(_rounded(np.sqrt(max(np.trace(matrix), 0.0))))
        axes = np.empty((3, 3))
        _sort_axes(matrix, axes)
        cubes = np.empty((blocks, 3))
        run_in_threads(_sum_cubes, blocks, points, low, extent, center, axes, cubes, grain=1)
        axes *= np.where(cubes.sum(axis=0) < 0, -1.0, 1.0)
        return OwnFrame(low + extent * center, extent * scale or 1.0, axes)

    def apply(self, points: FloatArray) -> FloatArray:
        """Points (M, 3) in this frame."""
        # Without BLAS, whose last digits depend on the number of threads.
        shifted = (points - self.center) / self.scale
        return np.asarray(np.einsum("mi,ij->mj", shifted, self.axes))


def _rounded(values: FloatArray) -> FloatArray:
    """Values to a multiple of ROUNDING: the order in which points are added makes no difference."""
    return np.asarray(np.rint(values / ROUNDING) * ROUNDING)


def axes_of_patches(patches: FloatArray) -> FloatArray:
    """(P, 3, 3): the principal axes of each patch (P, N, 3) around the origin, as in OwnFrame.

    Weights fall to 0 at the rim of a patch, so that a point that enters or leaves it there does not
    turn the axes.
    """
    axes = np.empty((len(patches), 3, 3))
    run_in_threads(_fill_axes, len(patches), patches, axes, grain=_FEW_PATCHES)
    return axes


@compiled
def _fill_axes(start: int, stop: int, patches: FloatArray, axes: FloatArray) -> None:
    """Axes of the patches `start` to `stop - 1`."""
    count = patches.shape[1]
    weights, matrix, middle = np.empty(count), np.empty((3, 3)), np.empty(3)
    for patch in range(start, stop):
        points, found = patches[patch], axes[patch]
        _weigh(points, weights)
        total = weights.sum()
        for i in range(3):
            middle[i] = 0.0
            for k in range(count):
                middle[i] += weights[k] * points[k, i]
            middle[i] /= total
        for i in range(3):
            for j in range(i, 3):
                product = 0.0
                for k in range(count):
                    product += weights[k] * (points[k, i] - middle[i]) * (points[k, j] - middle[j])
                matrix[i, j] = product
        _sort_axes(matrix, found)
        for place in range(3):
            cubes = 0.0
            for k in range(count):
                along = 0.0
                for i in range(3):
                    along += (points[k, i] - middle[i]) * found[i, place]
                cubes += weights[k] * along**3
            if cubes < 0.0:
                for i in range(3):
                    found[i, place] = -found[i, place]


@compiled
def _weigh(points: FloatArray, weights: FloatArray) -> None:
    """Write weights (N,) that fall from 1 at the origin to 0 at the farthest of points (N, 3)."""
    farthest = 0.0
    for k in range(len(points)):
        weights[k] = points[k, 0] ** 2 + points[k, 1] ** 2 + points[k, 2] ** 2
        farthest = max(farthest, weights[k])
    for k in range(len(points)):
        weights[k] = 1.0 - weights[k] / farthest if farthest > 0.0 else 1.0


@compiled
def _sort_axes(matrix: FloatArray, axes: FloatArray) -> None:
    """Write the eigenvectors of a matrix (3, 3) as columns, that of the least eigenvalue first.

    matrix  its upper half; it is changed
    """
    # A power of 2, which the order of additions does not change either.
    unit = math.ldexp(ROUNDING, math.frexp(matrix[0, 0] + matrix[1, 1] + matrix[2, 2])[1])
    for i in range(3):
        for j in range(i, 3):
            matrix[i, j] = round(matrix[i, j] / unit) * unit
            matrix[j, i] = matrix[i, j]
    found = np.empty((3, 3))
    diagonalise(matrix, found)
    least, most = least_and_most(matrix)
    # Equal variances make both the same.
    most = most if most != least else (least + 1) % 3
    order = (least, 3 - least - most, most)
    for place in range(3):
        for i in range(3):
            axes[i, place] = found[i, order[place]]


@compiled
def _sum_products(
    start: int, stop: int, points: FloatArray, low: FloatArray, extent: float, sums: FloatArray
) -> None:
    """Write the sums of x, y, z, and of xx, xy, xz, yy, yz, zz of blocks `start` to `stop - 1`."""
    for block in range(start, stop):
        first = block * _POINTS_PER_BLOCK
        sums[block] = 0.0
        for row in range(first, min(first + _POINTS_PER_BLOCK, len(points))):
            x = (points[row, 0] - low[0]) / extent
            y = (points[row, 1] - low[1]) / extent
            z = (points[row, 2] - low[2]) / extent
            products = (x, y, z, x * x, x * y, x * z, y * y, y * z, z * z)
            for place in range(9):
                sums[block, place] += products[place]


@compiled
def _sum_cubes(
    start: int,
    stop: int,
    points: FloatArray,
    low: FloatArray,
    extent: float,
    center: FloatArray,
    axes: FloatArray,
    cubes: FloatArray,
) -> None:
    """Write the sums of cubes along each axis, from the centre, of blocks `start` to `stop - 1`."""
    for block in range(start, stop):
        first = block * _POINTS_PER_BLOCK
        cubes[block] = 0.0
        for row in range(first, min(first + _POINTS_PER_BLOCK, len(points))):
            for place in range(3):
                along = 0.0
                for i in range(3):
                    shifted = (points[row, i] - low[i]) / extent - center[i]
                    along += shifted * axes[i, place]
                cubes[block, place] += along**3
