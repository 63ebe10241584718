"""Check what callers give: finite float64 points (M, 3), a seed, or one sentence why not."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdflow.errors import PdflowError
from pdflow.parallel import run_in_threads

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

_POINTS_IN_CACHE = 65_536

LARGEST_COORDINATE = 1e152
"""Squared distances between larger coordinates may overflow."""


def finite_points(points: ArrayLike, name: str = "Points") -> FloatArray:
    """`points` as a contiguous (M, 3) float64 array; refuses NaN, infinite and huge coordinates.

    name  what the error message calls them

    >>> finite_points([[0, 1, 2]]).dtype.name
    'float64'
    >>> finite_points([[0, 1, float("nan")]])
    Traceback (most recent call last):
    ...
    pdflow.errors.PdflowError: Points has NaN or infinite coordinates, first in row 0: drop them.
    """
    try:
        array = np.ascontiguousarray(points, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(points).__name__
        raise PdflowError(
            f"{name} must be an array of numbers (M, 3), not {kind}: of a cloud pass its points."
        ) from error
    if array.ndim != 2 or array.shape[1] != 3:
        raise PdflowError(f"{name} must have shape (M, 3), not {array.shape}: pass one row each.")
    # Minima and maxima propagate NaN, so they check all values.
    largest = np.abs(bounding_box(array)).max() if len(array) else 0.0
    if not np.isfinite(largest):
        row = int(np.argmin(np.isfinite(array).all(axis=1)))
        raise PdflowError(f"{name} has NaN or infinite coordinates, first in row {row}: drop them.")
    if largest > LARGEST_COORDINATE:
        row = int(np.argmax(np.abs(array).max(axis=1)))
        raise PdflowError(
            f"{name} has a coordinate of {largest:.3g} in row {row}, too large to compute with: "
            "drop that row, or use another unit."
        )
    return array


def generator(seed: int) -> np.random.Generator:
    """The random number generator of a seed, 0 or any positive integer.

    >>> int(generator(7).integers(100)) == int(generator(7).integers(100))
    True
    """
    if not isinstance(seed, (int, np.integer)):
        raise PdflowError(f"The seed {seed!r} is no integer: give 0 or a positive one.")
    if seed < 0:
        raise PdflowError(f"The seed {seed} is negative: give 0 or a positive integer.")
    return np.random.default_rng(seed)


def bounding_box(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lowest and the highest corner (3,) of the box around points (M, 3), M > 0.

    >>> [corner.tolist() for corner in bounding_box(np.array([[0.0, 5, 2], [1, 3, 2]]))]
    [[0.0, 3.0, 2.0], [1.0, 5.0, 2.0]]
    """
    starts = range(0, len(points), _POINTS_IN_CACHE)
    corners = np.empty((2, len(starts), 3))

    def measure(first: int, last: int) -> None:
        for part in range(first, last):
            some = points[starts[part] :][:_POINTS_IN_CACHE]
            corners[:, part] = _reduce(np.minimum, some), _reduce(np.maximum, some)

    run_in_threads(measure, len(starts), grain=1)
    return corners[0].min(axis=0), corners[1].max(axis=0)


def _reduce(fold: np.ufunc, points: FloatArray) -> FloatArray:
    """(3,): `fold` over points (M, 3), M > 0.

    Rows of many points are much faster to reduce than rows of three numbers.
    """
    whole = len(points) // 64 * 64
    wide = points[:whole].reshape(-1, 3 * 64)
    if len(wide):
        points = np.concatenate([fold.reduce(wide).reshape(-1, 3), points[whole:]])
    return np.asarray(fold.reduce(points))
