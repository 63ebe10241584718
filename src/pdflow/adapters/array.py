"""Arrays (M, >= 3) of numpy, and all that numpy makes an array of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.adapters.adapter import Adapter, numbered, source_rows
from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError


class ArrayAdapter(Adapter):
    """Rows of numbers that begin with x, y, z. Floats keep their dtype; others become float64."""

    columns = "beside"

    def __init__(self, given: Any) -> None:
        super().__init__(given)
        self.array = as_numbers(given)

    @classmethod
    def takes(cls, cloud: Any) -> bool:
        """Anything: what is no array of numbers is refused when it is read."""
        return True

    def read(self) -> PointCloud:
        """The first three columns."""
        check_shape(self.array.shape, self.name)
        return numbered(self.array[:, :3], {})

    def restore(self, clean: PointCloud, added: Sequence[str]) -> NDArray[np.floating]:
        """The clean points, and the other columns as they were."""
        rows = source_rows(clean, len(self.array))
        result = self.array[slice(None) if rows is None else rows].astype(self.dtype)
        result[:, :3] = clean.points
        return np.asarray(result)

    def column(self, values: NDArray[Any]) -> NDArray[Any]:
        """An array; lengths have the dtype of the points."""
        return values.astype(self.dtype) if values.dtype.kind == "f" else values

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the result."""
        return self.array.dtype if self.array.dtype.kind == "f" else np.dtype(np.float64)


def check_shape(shape: Sequence[int], name: str) -> None:
    """Refuse an array that is not (M, >= 3)."""
    if len(shape) != 2 or shape[1] < 3:
        raise PdflowError(
            f"This {name} has shape {tuple(shape)}: give one row per point, (M, 3) or more columns."
        )


def as_numbers(points: Any) -> NDArray[Any]:
    """An array of real numbers, whatever its shape.

    >>> as_numbers([[1, 2, 3]]).shape
    (1, 3)
    """
    try:
        array = np.asarray(points)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise PdflowError(
            f"Points in this {type(points).__name__} are no numbers: give one row (x, y, z) per "
            "point, or a cloud from `pdflow.read`."
        )
    return array
