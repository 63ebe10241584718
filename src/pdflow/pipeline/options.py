"""Options of a run: checked once, and refused in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdflow.errors import PdflowError


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
