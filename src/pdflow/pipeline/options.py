"""Options of a run: checked once, and refused in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError

LARGEST_CLASS = 255
"""Classes of points are bytes in LAS."""


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Refuse an option's value that is none of `allowed`."""
    if value not in allowed:
        raise PdflowError(f"{name} is {value!r}: choose {' or '.join(map(repr, allowed))}.")


def check_whole_number(name: str, value: Any, lowest: float, other: str | None) -> int | str | None:
    """An option's value as an int, or `other`, the one thing that it may be instead."""
    if isinstance(value, (int, np.integer)) and value >= lowest:
        return int(value)  # numpy integers overflow, Python's do not
    if value is not other and value != other:
        least = f" from {lowest}" if lowest > -np.inf else ""
        raise PdflowError(f"{name} is {value!r}: give a whole number{least}, or {other}.")
    return other


def check_number(name: str, value: Any, lowest: float, remedy: str) -> None:
    """Refuse an option's value that is no finite number from `lowest` on."""
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    if not (is_number and lowest <= value < np.inf):
        raise PdflowError(f"{name} is {value!r}: {remedy}.")


def checked_numbers(options: Any) -> dict[str, int | str | None]:
    """Whole numbers among the options of a run, as ints; numbers that make no sense are refused."""
    whole: tuple[tuple[str, float, str | None], ...] = (
        ("iterations", 1, "auto"),
        ("partitions", 1, "auto"),
        ("points", 1, None),
        ("outlier_class", 0, None),
        ("seed", -np.inf, None),
    )
    check_number("overlap", options.overlap, 1, "give a number of patches from 1")
    if options.radius is not None:
        check_number("radius", options.radius, np.finfo(float).tiny, "give a positive number")
    if options.max_move not in (None, np.inf):
        check_number("max_move", options.max_move, 0, "give a length in the cloud's unit")
    if (options.outlier_class or 0) > LARGEST_CLASS:
        raise PdflowError(f"outlier_class is {options.outlier_class}: give a class up to 255.")
    return {
        name: check_whole_number(name, getattr(options, name), lowest, other)
        for name, lowest, other in whole
    }


def named_column(cloud: PointCloud, name: str, option: str) -> NDArray[Any]:
    """An attribute (M, ...) that an option names."""
    if name not in cloud.attributes:
        known = ", ".join(cloud.attributes) or "none"
        raise PdflowError(
            f"The cloud has no attribute {name!r} for {option}: its attributes are {known}."
        )
    return cloud.attributes[name]
