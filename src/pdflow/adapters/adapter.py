"""What every adapter does: read a cloud of its kind, and make one of clean points."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud

ROWS = "row of the input"
"""Attribute that says which point of the input each point of a result comes from."""


class Adapter(ABC):
    """One cloud of one kind.

    columns  where values go that a run adds to each point: "inside" the cloud by their names,
             "beside" it as arrays of its kind, or "nowhere"
    """

    columns: Literal["inside", "beside", "nowhere"]

    def __init__(self, given: Any) -> None:
        self.given = given

    @classmethod
    @abstractmethod
    def takes(cls, cloud: Any) -> bool:
        """Whether a cloud is of this kind."""

    @property
    def name(self) -> str:
        """What messages call the cloud: its library and its class."""
        kind = type(self.given)
        library = kind.__module__.partition(".")[0]
        return kind.__name__ if library == "builtins" else f"{library}.{kind.__name__}"

    @property
    def fixed_rows(self) -> str | None:
        """What refers to the rows of this cloud, such as faces, so that all must stay."""
        return None

    @abstractmethod
    def read(self) -> PointCloud:
        """The points (M, 3), and their attributes."""

    @abstractmethod
    def restore(self, clean: PointCloud, added: Sequence[str]) -> Any:
        """A cloud of this kind from what a run made of `read`; the given one is not changed.

        added  attributes that the run added
        """

    def column(self, values: NDArray[Any]) -> Any:
        """Values (m, ...) of points as an array of this kind."""
        return values


def numbered(points: Any, attributes: Mapping[str, Any]) -> PointCloud:
    """A cloud (M, 3) whose points know their rows, with those attributes that a cloud can hold."""
    cloud = PointCloud(points)
    for name, values in attributes.items():
        array = np.asarray(values)
        if array.ndim in (1, 2) and len(array) == len(cloud):
            cloud.attributes[name] = array
    cloud.attributes[ROWS] = np.arange(len(cloud))
    return cloud


def source_rows(clean: PointCloud, count: int) -> NDArray[np.int64] | None:
    """(m,): the rows of an input of `count` points that a result comes from; None for all."""
    rows = clean.attributes[ROWS]
    if len(rows) == count and np.array_equal(rows, np.arange(count)):
        return None
    return rows


def is_instance(cloud: Any, *names: str) -> bool:
    """Whether a cloud is of a class, named with its module, without importing that module.

    >>> from collections import OrderedDict
    >>> is_instance(OrderedDict(), "collections.OrderedDict"), is_instance({}, "no_such.Cloud")
    (True, False)
    """
    for name in names:
        module, _, path = name.partition(".")
        kind: Any = sys.modules.get(module)
        for part in path.split("."):
            kind = getattr(kind, part, None)
        if isinstance(kind, type) and isinstance(cloud, kind):
            return True
    return False
