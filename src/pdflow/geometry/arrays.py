"""Check the input of geometry functions: finite float64 points (M, 3), or one sentence why not."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdflow.errors import PdflowError

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

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
    # Minima and maxima propagate NaN and need no memory, so they check all values in two passes.
    largest = np.maximum(array.max(initial=0.0), -array.min(initial=0.0))
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
