"""Any other object with `points`: a dataclass, a namespace, a cloud of another library."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pdflow.adapters.adapter import Adapter, numbered, source_rows
from pdflow.adapters.array import ArrayAdapter
from pdflow.adapters.tensor import TensorAdapter
from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError


class PointsAdapter(Adapter):
    """An object whose `points` are an array or tensor; it is copied, never changed.

    Arrays and tensors among its other fields that have one row per point follow the points.
    """

    columns = "nowhere"

    def __init__(self, given: Any) -> None:
        super().__init__(given)
        points = given.points
        self.points = (TensorAdapter if TensorAdapter.takes(points) else ArrayAdapter)(points)

    @classmethod
    def takes(cls, cloud: Any) -> bool:
        """Whether a cloud has `points`."""
        return hasattr(cloud, "points")

    def read(self) -> PointCloud:
        """The points, and those fields that are arrays of numpy."""
        _changed(self.given, {"points": self.given.points})  # refused now, not after a long run
        cloud = self.points.read()
        arrays = {k: v for k, v in self._rows_of_points(len(cloud)).items() if not _is_tensor(v)}
        return numbered(cloud.points, arrays)

    def restore(self, clean: PointCloud, added: Sequence[str]) -> Any:
        """A shallow copy with other points."""
        count = len(self.given.points)
        rows = source_rows(clean, count)
        changes = {"points": self.points.restore(clean, added)}
        if rows is not None:
            fields = self._rows_of_points(count)
            changes |= {name: values[rows] for name, values in fields.items()}
        return _changed(self.given, changes)

    def _rows_of_points(self, count: int) -> dict[str, Any]:
        """Fields other than `points` with one row for each of `count` points."""
        fields = getattr(self.given, "__dict__", {})
        return {
            name: values
            for name, values in fields.items()
            if name != "points" and _has_rows(values, count)
        }


def _has_rows(values: Any, count: int) -> bool:
    shape = getattr(values, "shape", None)
    return isinstance(shape, tuple) and len(shape) > 0 and shape[0] == count


def _is_tensor(values: Any) -> bool:
    return TensorAdapter.takes(values)


def _changed(given: Any, changes: Mapping[str, Any]) -> Any:
    """A shallow copy with other fields."""
    try:
        if dataclasses.is_dataclass(given):
            return dataclasses.replace(given, **changes)  # type: ignore[type-var]
        result = copy.copy(given)
        for name, values in changes.items():
            setattr(result, name, values)
    except (AttributeError, TypeError, ValueError) as error:
        raise PdflowError(
            f"The points of this {type(given).__name__} cannot be replaced ({error}): pass them as "
            "an array."
        ) from error
    return result
