"""Selection: which points of a cloud may move, as a mask or as a condition in words."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.pipeline.options import named_column
from pdflow.pipeline.restraint import code_of

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "in": np.isin,
}
"""What a condition may compare with."""

_CONDITION = re.compile(r"\s*(.+?)\s*(==|!=|<=|>=|<|>|\bin\b)\s*([^<>=!]+?)\s*")


def select(cloud: PointCloud, where: str | NDArray[Any] | None) -> NDArray[np.bool_]:
    """(M,): which points are meant.

    where  None: all; a mask (M,); or conditions on x, y, z and attributes, joined by "and", such
           as "classification in 2,6 and z < 10"

    >>> cloud = PointCloud(np.eye(3), {"class": np.array([1, 2, 6])})
    >>> select(cloud, "class in 2,6 and z < 1").tolist()
    [False, True, False]
    """
    if where is None:
        return np.ones(len(cloud), dtype=bool)
    if isinstance(where, str):
        mask = np.ones(len(cloud), dtype=bool)
        for condition in re.split(r"\s+and\s+", where.strip()):
            mask &= _compare(cloud, condition)
        return mask
    mask = np.asarray(where)
    if mask.shape != (len(cloud),) or mask.dtype != bool:
        raise PdflowError(
            f"where has shape {mask.shape} and type {mask.dtype}: give a condition, or one bool "
            f"for each of {len(cloud)} points."
        )
    return mask


def leave_out(
    others: NDArray[np.bool_],
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    why: NDArray[np.uint8],
    reason: str = "not_selected",
) -> None:
    """Move points (m, 3), in place, back to where they were before, where a mask (m,) is true.

    why     (m,) codes of the reasons that points are held back for
    reason  of these points
    """
    after[others] = before[others]
    why[others] = code_of(reason)


def _compare(cloud: PointCloud, condition: str) -> NDArray[np.bool_]:
    """(M,): which points meet one condition."""
    parts = _CONDITION.fullmatch(condition)
    if parts is None:
        raise PdflowError(
            f"where has the condition {condition!r}: write a name, one of "
            f"{' '.join(COMPARISONS)}, and a number, such as 'classification == 2'."
        )
    name, comparison, text = parts.groups()
    numbers = _numbers(text, condition, several=comparison == "in")
    return np.asarray(COMPARISONS[comparison](_column(cloud, name), numbers))


def _column(cloud: PointCloud, name: str) -> NDArray[Any]:
    """(M,): a coordinate or an attribute with one number for each point."""
    if name in ("x", "y", "z") and name not in cloud.attributes:
        return np.asarray(cloud.points[:, "xyz".index(name)])
    values = named_column(cloud, name, "where")
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise PdflowError(f"where compares {name!r}, which is not one number for each point.")
    return values


def _numbers(text: str, condition: str, several: bool) -> float | NDArray[np.float64]:
    """The number in a text, or several that commas separate."""
    words = text.strip("()[] ").split(",") if several else [text]
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        raise PdflowError(
            f"where has the condition {condition!r}: {text!r} is no number."
        ) from None
    return np.array(numbers) if several else numbers[0]
