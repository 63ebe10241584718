"""A scan that is written: its points in its own frame, and what its header says of them."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.io.e57.fields import ABSENT, DIRECTION, GROUPS, POSITION, STATE, Column
from pdflow.io.e57.pose import Pose

DERIVED = ("cartesianBounds", "sphericalBounds", "indexBounds", "pointGroupingSchemes", "points")
"""Header entries of a scan that follow from its points."""

_INDEX_BOUNDS = {"row": "rowIndex", "column": "columnIndex", "return": "returnIndex"}
_LIMITS = {"intensityLimits": ("intensity",), "colorLimits": GROUPS["colors"]}


class Guid:
    """A guid that depends on the points only, so that equal clouds give equal files."""

    def __init__(self, kind: str) -> None:
        self._digest = hashlib.blake2b(digest_size=16, person=kind.encode())

    def add(self, points: NDArray[np.float64]) -> None:
        """Add the next points (M, 3)."""
        self._digest.update(np.ascontiguousarray(points).data)

    def __str__(self) -> str:
        return f"{{{uuid.UUID(bytes=self._digest.digest(), version=4)}}}"


class Scan:
    """A scan whose points come in parts.

    number  of the scan in the file
    header  entries that are known before the points
    columns attributes of the cloud; those that the header calls absent are not written
    """

    def __init__(self, number: int, header: dict[str, Any], columns: list[Column]) -> None:
        self.number = number
        self.header = {n: value for n, value in header.items() if n not in (ABSENT, *DERIVED)}
        self.pose = Pose.of(header)
        absent = header.get(ABSENT, ())
        self.columns = [c for c in columns if c.name not in absent]
        self.types: dict[str, np.dtype[Any]] = dict.fromkeys(POSITION, np.dtype(np.float64))
        for column in self.columns:
            self.types.update(column.types)
        self._guid = Guid("scan")
        self._ranges: dict[str, tuple[Any, Any]] = {}
        self._is_empty = True

    def add(self, part: PointCloud, directed: bool) -> dict[str, NDArray[Any]]:
        """The point fields (M,) of the next points, which the header counts in.

        directed  whether `direction` holds the direction of points that have no place
        """
        local = self.pose.to_local(part.points)
        attributes = dict(part.attributes)
        state, normals = attributes.get(STATE), attributes.get("normals")
        if state is not None and state.ndim == 1:
            local[(state != 0) & np.isnan(local).any(1)] = 0.0
            if directed:
                toward = attributes[DIRECTION][state == 1]
                local[state == 1] = self.pose.turned_back(toward)
        if normals is not None and normals.ndim == 2 and normals.dtype.kind == "f":
            attributes["normals"] = self.pose.turned_back(normals)
        fields = {name: local[:, i].copy() for i, name in enumerate(POSITION)}
        for column in self.columns:
            fields.update(column.set(attributes[column.name]))
        self._guid.add(part.points)
        self._count_in(fields)
        return fields

    def derived(self) -> dict[str, Any]:
        """Header entries that are known after the points; a kept header has its own limits."""
        entries: dict[str, Any] = {"guid": str(self._guid)}
        if not self.header:
            for title, parts in _LIMITS.items():
                if all(part in self.types for part in parts):
                    entries[title] = self._limits(parts)
        entries = {name: value for name, value in entries.items() if name not in self.header}
        if self._is_empty:
            return entries
        entries["cartesianBounds"] = {
            f"{axis}{end}": limit
            for axis, name in zip("xyz", POSITION, strict=True)
            for end, limit in zip(("Minimum", "Maximum"), self._range(name), strict=True)
        }
        index = {
            f"{title}{end}": limit
            for title, name in _INDEX_BOUNDS.items()
            if name in self.types and self.types[name].kind in "iu"
            for end, limit in zip(("Minimum", "Maximum"), self._range(name), strict=True)
        }
        return {**entries, **({"indexBounds": index} if index else {})}

    def _limits(self, parts: tuple[str, ...]) -> dict[str, Any]:
        """The limits of intensity or colours, which E57 requires in a new scan."""
        limits = {}
        for part in parts:
            low, high = self._range(part)
            if self.types[part].kind in "iu":
                of_type = np.iinfo(self.types[part])
                low, high = int(of_type.min), int(of_type.max)
            limits.update({f"{part}Minimum": low, f"{part}Maximum": high})
        return limits

    def _range(self, name: str) -> tuple[Any, Any]:
        """Smallest and largest finite value of a point field so far."""
        return self._ranges.get(name, (0.0, 0.0))

    def _count_in(self, fields: dict[str, NDArray[Any]]) -> None:
        wanted = {*POSITION, *_INDEX_BOUNDS.values(), *(p for ps in _LIMITS.values() for p in ps)}
        self._is_empty = self._is_empty and not len(fields[POSITION[0]])
        for name in wanted & fields.keys():
            values = fields[name][np.isfinite(fields[name])]
            if len(values):
                # Adding zero makes the zeros of both signs one.
                low, high = (values.min() + 0).item(), (values.max() + 0).item()
                before = self._ranges.get(name, (low, high))
                self._ranges[name] = min(low, before[0]), max(high, before[1])
