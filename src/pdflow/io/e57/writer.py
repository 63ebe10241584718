"""Write a cloud as the scans of an E57 file, each with its own frame and header."""

from __future__ import annotations

import hashlib
import uuid
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.comments import encode_comments
from pdflow.io.e57.fields import (
    EXTENSIONS,
    GROUPS,
    POSITION,
    PREFIX,
    STATE,
    Column,
    columns_to_write,
    new_field,
    write_fields,
)
from pdflow.io.e57.pose import Pose
from pdflow.io.e57.tree import TreeWriter, is_xml

DERIVED = ("cartesianBounds", "sphericalBounds", "indexBounds", "pointGroupingSchemes", "points")
"""Header entries of a scan that follow from its points."""

METADATA, ATTRIBUTES = f"{PREFIX}:metadata", f"{PREFIX}:attributes"
ABSENT = f"{PREFIX}:absent"
"""In the metadata of a scan: attributes that other scans have and it lacks."""

SCAN, DIRECTION = "scan", "direction"
_INDEX_BOUNDS = {"row": "rowIndex", "column": "columnIndex", "return": "returnIndex"}
_MOST_SCANS = 100_000


class CloudWriter:
    """Writes one cloud into one open file."""

    def __init__(self, file: Any, libe57: ModuleType, cloud: PointCloud) -> None:
        self._file, self._libe57, self._cloud = file, libe57, cloud
        self._root, self._tree = file.root(), TreeWriter(file, libe57)
        self._kept = _checked(cloud.metadata.get("e57", {}))
        self._attributes = dict(cloud.attributes)
        self._lost: list[str] = []

    def write(self) -> list[str]:
        """Write everything and return what could not be written."""
        scans, rows = self._scans()
        direction = self._attributes.pop(DIRECTION) if self._has_directions() else None
        extensions: dict[str, str] = dict(self._kept.pop("extensions", {}))
        columns, lost = columns_to_write(self._attributes, extensions)
        self._lost += lost
        self._write_root(columns, extensions)
        vector = self._libe57.VectorNode(self._file, True)
        self._root.set("data3D", vector)
        for scan, chosen in zip(scans, rows, strict=True):
            absent = scan.pop(ABSENT, ())
            values = {c.name: self._attributes[c.name][chosen] for c in columns}
            part = PointCloud(self._cloud.points[chosen], values)
            toward = None if direction is None else direction[chosen]
            there = [c for c in columns if c.name not in absent]
            self._write_scan(vector, scan, part, there, toward)
        return self._lost + self._tree.lost

    def _scans(self) -> tuple[list[dict[str, Any]], list[NDArray[np.intp]]]:
        """The header of each scan, and the rows of the cloud that belong to it."""
        scans: list[dict[str, Any]] = [dict(scan) for scan in self._kept.pop("scans", [])]
        index = self._attributes.get(SCAN)
        if "e57" in self._cloud.metadata and index is not None and _tells_scans(index):
            count = max(len(scans), int(index.max()) + 1)
            if count > 1:
                del self._attributes[SCAN]
                scans += [{} for _ in range(count - len(scans))]
                if (np.diff(index.astype(np.int64)) < 0).any():
                    self._lost.append("points in this order (they are now sorted by scan)")
                return scans, [np.flatnonzero(index == i) for i in range(count)]
        if len(scans) > 1:
            self._lost.append("metadata 'e57.scans' (the cloud has no attribute 'scan')")
            scans = []
        return scans or [{}], [np.arange(len(self._cloud))]

    def _has_directions(self) -> bool:
        """Whether `direction` comes from a reader that met points with only a direction."""
        direction, state = self._attributes.get(DIRECTION), self._attributes.get(STATE)
        if direction is None or state is None or state.ndim != 1:
            return False
        made = direction.dtype == np.float64 and direction.shape[1:] == (3,)
        return made and bool(np.isnan(direction[state != 1]).all())

    def _write_root(self, columns: list[Column], extensions: dict[str, str]) -> None:
        metadata = {k: v for k, v in self._cloud.metadata.items() if k not in ("e57", "crs")}
        crs = self._cloud.metadata.get("crs")
        known = isinstance(crs, str) and crs != "" and is_xml(crs)
        if not known and crs is not None:
            metadata["crs"] = crs
        lines, lost = encode_comments(metadata)
        notes = encode_comments({"attributes": [c.note() for c in columns if not c.default]})[0]
        self._lost += lost
        own = {METADATA: "\n".join(lines) if lines else None}
        own[ATTRIBUTES] = None if all(c.default for c in columns) else "\n".join(notes)
        used = {f.partition(":")[0] for c in columns for f in c.fields if ":" in f}
        used |= {PREFIX} if any(own.values()) else set()
        self._file.extensionsAdd("", self._libe57.E57_V1_0_URI)
        for prefix, uri in {
            **{p: uri for p, uri in EXTENSIONS.items() if p in used},
            **extensions,
        }.items():
            self._file.extensionsAdd(prefix, uri)
        head = {
            "formatName": "ASTM E57 3D Imaging Data File",
            "guid": _new_guid(self._cloud.points, "file"),
            "versionMajor": self._libe57.E57_FORMAT_MAJOR,
            "versionMinor": self._libe57.E57_FORMAT_MINOR,
            "e57LibraryVersion": self._libe57.E57_LIBRARY_ID,
            "coordinateMetadata": crs if known else "",
            **self._kept,
            **{name: text for name, text in own.items() if text is not None},
        }
        for name, value in head.items():
            self._tree.put(partial(self._root.set, name), value, f"e57.{name}")

    def _write_scan(
        self,
        scans: Any,
        scan: dict[str, Any],
        part: PointCloud,
        columns: list[Column],
        direction: NDArray[np.float64] | None,
    ) -> None:
        """Append one scan with its points."""
        pose = Pose.of(scan)
        local = pose.to_local(part.points)
        state = part.attributes.get(STATE)
        if state is not None and state.ndim == 1:
            local[(state != 0) & np.isnan(local).any(1)] = 0.0
            if direction is not None:
                local[state == 1] = pose.turned_back(direction[state == 1])
        normals = part.attributes.get("normals")
        if normals is not None and normals.ndim == 2 and normals.dtype.kind == "f":
            part.attributes["normals"] = pose.turned_back(normals)
        fields = {name: local[:, i].copy() for i, name in enumerate(POSITION)}
        for column in columns:
            fields.update(column.set(part.attributes[column.name]))
        node = self._libe57.StructureNode(self._file)
        scans.append(node)
        new = {} if scan else _limits(columns, fields)
        head = {"guid": _new_guid(part.points, "scan"), **new, **scan, **_bounds(fields)}
        for name, value in head.items():
            self._tree.put(partial(node.set, name), value, f"e57.scans[{len(scans) - 1}].{name}")
        prototype = self._libe57.StructureNode(self._file)
        for name, values in fields.items():
            prototype.set(name, new_field(values.dtype, self._file, self._libe57))
        codecs = self._libe57.VectorNode(self._file, True)
        points = self._libe57.CompressedVectorNode(self._file, prototype, codecs)
        node.set("points", points)
        write_fields(points, fields, self._file, self._libe57)


def _checked(kept: Any) -> dict[str, Any]:
    """A copy of `metadata["e57"]` if it is valid."""
    try:
        copy = dict(kept)
        extensions, scans = dict(copy.get("extensions", {})), list(copy.get("scans", []))
        sound = all(isinstance(text, str) for pair in extensions.items() for text in pair)
        sound = sound and all(Pose.of(scan).valid for scan in scans)
    except (AttributeError, TypeError, ValueError):
        sound = False
    if not sound:
        raise PdflowError(
            "The cloud's metadata['e57'] is not a valid E57 header: remove it, and pdflow writes "
            "a new one."
        )
    return copy


def _tells_scans(index: NDArray[Any]) -> bool:
    """Whether an attribute `scan` can be scan numbers from a reader."""
    whole = index.dtype == np.int32 and index.ndim == 1
    return whole and index.min() >= 0 and index.max() < _MOST_SCANS


def _new_guid(points: NDArray[np.float64], kind: str) -> str:
    """A guid that depends on the points only, so that equal clouds give equal files."""
    content = np.ascontiguousarray(points).data
    digest = hashlib.blake2b(content, digest_size=16, person=kind.encode()).digest()
    return f"{{{uuid.UUID(bytes=digest, version=4)}}}"


def _limits(columns: list[Column], fields: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The limits of intensity and colours that E57 requires in a new scan."""
    names = {c.name for c in columns}
    limits: dict[str, Any] = {}
    for name, title, parts in (
        ("intensity", "intensityLimits", ("intensity",)),
        ("colors", "colorLimits", GROUPS["colors"]),
    ):
        if name in names and all(p in fields for p in parts):
            limits[title] = {}
            for part in parts:
                low, high = _range(fields[part])
                limits[title].update({f"{part}Minimum": low, f"{part}Maximum": high})
    return limits


def _range(values: NDArray[Any]) -> tuple[Any, Any]:
    if values.dtype.kind in "iu":
        limits = np.iinfo(values.dtype)
        return int(limits.min), int(limits.max)
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)


def _bounds(fields: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The bounds of coordinates and indices."""
    if not len(fields[POSITION[0]]):
        return {}
    cartesian, index = {}, {}
    for axis, name in zip("xyz", POSITION, strict=True):
        cartesian[f"{axis}Minimum"], cartesian[f"{axis}Maximum"] = _range(fields[name])
    for title, name in _INDEX_BOUNDS.items():
        if name in fields and fields[name].dtype.kind in "iu":
            index[f"{title}Minimum"] = int(fields[name].min())
            index[f"{title}Maximum"] = int(fields[name].max())
    return {"cartesianBounds": cartesian, **({"indexBounds": index} if index else {})}
