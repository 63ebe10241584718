"""What callers may give: checked once, with one sentence for what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError


def whole_number(name: str, value: Any, lowest: float, other: str | None) -> int | str | None:
    """An option's value as an int, or `other`, the one thing that it may be instead."""
    if isinstance(value, (int, np.integer)) and value >= lowest:
        return int(value)  # numpy's overflow where Python's do not
    if value is not other and value != other:
        least = f" from {lowest}" if lowest > -np.inf else ""
        raise PdflowError(f"{name} is {value!r}: give a whole number{least}, or {other}.")
    return other


def is_number(value: Any, lowest: float) -> bool:
    """Whether a value is a finite number from `lowest` on."""
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    return is_number and bool(lowest <= value < np.inf)


def as_numbers(points: Any) -> NDArray[Any]:
    """An array of real numbers, whatever its shape."""
    try:
        array = np.asarray(points)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise PdflowError(
            f"Points in this {type(points).__name__} are no numbers: give one row (x, y, z) per "
            "point, or a cloud that `pdflow.read` has read."
        )
    return array
