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
        ([1.5, 0.5, 0.0], [0.0, 0.0, -1.0])
        """
        low, high = bounding_box(points)
        # Squares of tiny numbers underflow to 0, so distances are measured in extents.
        extent = float((high - low).max()) or 1.0
        shifted = (points - low) / extent
        center = _rounded(shifted.mean(axis=0))
        shifted -= center
        scale = float(_rounded(np.sqrt((shifted**2).sum(axis=1).mean())))
        axes = axes_of_patches(shifted[None], even=True)[0]
        return OwnFrame(low + extent * center, extent * scale or 1.0, axes)

    def apply(self, points: FloatArray) -> FloatArray:
        """Points (M, 3) in this frame."""
        # Without BLAS, whose last digits depend on the number of threads.
        shifted = (points - self.center) / self.scale
        return np.asarray(np.einsum("mi,ij->mj", shifted, self.axes))


def _rounded(values: FloatArray) -> FloatArray:
    """Values to a multiple of ROUNDING: the order in which points are added makes no difference."""
    return np.asarray(np.rint(values / ROUNDING) * ROUNDING)


def axes_of_patches(patches: FloatArray, even: bool = False) -> FloatArray:
    """(P, 3, 3): the principal axes of each patch (P, N, 3) around the origin, as in OwnFrame.

    even  whether all points count alike; else weights fall to 0 at the rim of a patch, so that a
          point that enters or leaves it there does not turn the axes
    """
    axes = np.empty((len(patches), 3, 3))
    run_in_threads(_fill_axes, len(patches), patches, even, axes, grain=_FEW_PATCHES)
    return axes


@compiled
def _fill_axes(start: int, stop: int, patches: FloatArray, even: bool, axes: FloatArray) -> None:
    """Axes of the patches `start` to `stop - 1`."""
    count = patches.shape[1]
    weights, matrix, found = np.ones(count), np.empty((3, 3)), np.empty((3, 3))
    middle, moments = np.empty(3), np.empty(3)
    for patch in range(start, stop):
        points = patches[patch]
        if not even:
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
        # A power of 2, which the order of additions does not change either.
        unit = math.ldexp(ROUNDING, math.frexp(matrix[0, 0] + matrix[1, 1] + matrix[2, 2])[1])
        for i in range(3):
            for j in range(i, 3):
                matrix[i, j] = round(matrix[i, j] / unit) * unit
                matrix[j, i] = matrix[i, j]
        diagonalise(matrix, found)
        least, most = least_and_most(matrix)
        # Equal variances make both the same.
        most = most if most != least else (least + 1) % 3
        order = (least, 3 - least - most, most)
        moments[:] = 0.0
        for k in range(count):
            for place in range(3):
                along = 0.0
                for i in range(3):
                    along += (points[k, i] - middle[i]) * found[i, order[place]]
                moments[place] += weights[k] * along**3
        for place in range(3):
            sign = -1.0 if moments[place] < 0.0 else 1.0
            for i in range(3):
                axes[patch, i, place] = sign * found[i, order[place]]


@compiled
def _weigh(points: FloatArray, weights: FloatArray) -> None:
    """Write weights (N,) that fall from 1 at the origin to 0 at the farthest of points (N, 3)."""
    farthest = 0.0
    for k in range(len(points)):
        weights[k] = points[k, 0] ** 2 + points[k, 1] ** 2 + points[k, 2] ** 2
        farthest = max(farthest, weights[k])
    for k in range(len(points)):
        weights[k] = 1.0 - weights[k] / farthest if farthest > 0.0 else 1.0
