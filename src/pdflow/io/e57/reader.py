"""Read the scans of an E57 file as one cloud in the common frame."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import LossWarning, PdflowError
from pdflow.io.comments import decode_comments
from pdflow.io.e57.fields import (
    POSITION,
    PREFIX,
    SPHERICAL,
    SPHERICAL_STATE,
    STATE,
    Column,
    columns_to_read,
    field_types,
    read_fields,
    record_bits,
)
from pdflow.io.e57.pose import Pose
from pdflow.io.e57.tree import read_tree
from pdflow.io.e57.writer import ABSENT, ATTRIBUTES, DERIVED, DIRECTION, METADATA, SCAN
from pdflow.io.stream import CHUNK, Field

_FORMAL = ("formatName", "versionMajor", "versionMinor", "e57LibraryVersion")
_ROOT = frozenset((*_FORMAL, "data3D", "coordinateMetadata", METADATA, ATTRIBUTES))


class CloudReader:
    """Reads an open file."""

    def __init__(self, file: Any, libe57: ModuleType, path: Path) -> None:
        self._file, self._libe57, self._path = file, libe57, path
        self._root = file.root()
        self._extensions = {
            file.extensionsPrefix(i): file.extensionsUri(i) for i in range(file.extensionsCount())
        }
        self._texts: set[str] = set()
        self._notes: list[Any] = self._own(ATTRIBUTES).get("attributes", [])

    def read(self) -> PointCloud:
        """The whole cloud."""
        if not self._root.isDefined("data3D") or not self._root["data3D"].childCount():
            raise PdflowError(f"{self._path} holds no scans: choose another file.")
        nodes = list(self._root["data3D"])
        self._check_counts(nodes)
        scans = [read_tree(node, self._libe57, frozenset(DERIVED)) for node in nodes]
        parts = [self._read_scan(i, node, scans[i]) for i, node in enumerate(nodes)]
        cloud = _joined(parts, scans)
        cloud.metadata = self._metadata(scans)
        if self._texts:
            names = ", ".join(sorted(self._texts))
            message = f"{self._path}: the point fields {names} hold text: left out."
            warnings.warn(message, LossWarning, stacklevel=2)
        return cloud

    def _check_counts(self, nodes: list[Any]) -> None:
        """Refuse more points than the file can hold, and endless copies of one constant point."""
        room = 8 * self._path.stat().st_size
        constant = CHUNK
        for index, node in enumerate(nodes):
            points = node["points"]
            bits = record_bits(self._libe57.StructureNode(points.prototype()), self._libe57)
            room -= bits * points.childCount()
            constant -= 0 if bits else points.childCount()
            if min(room, constant) < 0:
                raise PdflowError(
                    f"{self._path}: scan {index} promises {points.childCount()} points, more than "
                    "the file can hold: it is truncated or damaged, fetch it again."
                )

    def _own(self, name: str) -> dict[str, Any]:
        """The entries that pdflow wrote into the file, if any."""
        if PREFIX not in self._extensions or not self._root.isDefined(name):
            return {}
        return decode_comments(str(self._root[name].value()).split("\n"))

    def _metadata(self, scans: list[dict[str, Any]]) -> dict[str, Any]:
        root = self._root
        e57 = read_tree(root, self._libe57, _ROOT)
        e57["extensions"] = {p: u for p, u in self._extensions.items() if p not in ("", PREFIX)}
        e57["scans"] = scans
        metadata = {**self._own(METADATA), "e57": e57}
        crs = root["coordinateMetadata"].value() if root.isDefined("coordinateMetadata") else ""
        if crs:
            metadata["crs"] = crs
        return metadata

    def _read_scan(self, index: int, node: Any, scan: dict[str, Any]) -> PointCloud:
        """One scan in the common frame."""
        points = node["points"]
        prototype = self._libe57.StructureNode(points.prototype())
        every = field_types(prototype, self._libe57)
        types = {name: dtype for name, dtype in every.items() if dtype is not None}
        self._texts |= {name for name, dtype in every.items() if dtype is None}
        columns = columns_to_read(types, self._notes)
        place = next((p for p in (POSITION, SPHERICAL) if all(f in types for f in p)), None)
        if place is None:
            raise PdflowError(f"{self._path}: scan {index} has no coordinates: it is damaged.")
        if place == SPHERICAL and SPHERICAL_STATE in types:
            columns = [c for c in columns if c.name != STATE]
            columns.append(Column(STATE, Field(types[SPHERICAL_STATE]), (SPHERICAL_STATE,)))
        wanted = {f: types[f] for c in columns for f in c.fields}
        wanted.update({f: np.dtype(np.float64) for f in place})
        values = read_fields(points, wanted, self._file, self._libe57)
        local = np.stack([values[f] for f in place], axis=1)
        if len(local) != points.childCount():
            raise PdflowError(
                f"{self._path}: scan {index} has {len(local)} points, but its header promises "
                f"{points.childCount()}: it is truncated, fetch it again."
            )
        local = _cartesian(local) if place == SPHERICAL else local
        attributes = {c.name: c.get(values) for c in columns}
        return self._in_common_frame(index, local, attributes, Pose.of(scan))

    def _in_common_frame(
        self,
        index: int,
        local: NDArray[np.float64],
        attributes: dict[str, NDArray[Any]],
        pose: Pose,
    ) -> PointCloud:
        if not pose.valid:
            raise PdflowError(f"{self._path}: the pose of scan {index} is invalid: it is damaged.")
        common = pose.to_common(local)
        normals = attributes.get("normals")
        if normals is not None and normals.dtype.kind == "f":
            attributes["normals"] = pose.turned(normals)
        state = attributes.get(STATE)
        if state is not None and state.any():
            common[state != 0] = np.nan
            if (state == 1).any():
                direction = np.full_like(local, np.nan)
                direction[state == 1] = pose.turned(local[state == 1])
                attributes[DIRECTION] = direction
        return PointCloud(common, attributes)


def _joined(parts: list[PointCloud], scans: list[dict[str, Any]]) -> PointCloud:
    """One cloud from several scans; attributes that a scan lacks are noted and filled in."""
    if len(parts) == 1:
        return parts[0]
    names = list(dict.fromkeys(name for part in parts for name in part.attributes))
    attributes = {}
    for name in names:
        there = [part.attributes[name] for part in parts if name in part.attributes]
        dtype, shape = np.result_type(*there), there[0].shape[1:]
        fill = np.nan if dtype.kind in "fc" else np.zeros((), dtype)
        attributes[name] = np.concatenate(
            [p.attributes.get(name, np.full((len(p), *shape), fill, dtype)) for p in parts],
            dtype=dtype,
        )
    for part, scan in zip(parts, scans, strict=True):
        absent = sorted(n for n in names if n not in part.attributes and n != DIRECTION)
        if absent:
            scan[ABSENT] = absent
    counts = [len(part) for part in parts]
    attributes[SCAN] = np.repeat(np.arange(len(parts), dtype=np.int32), counts)
    return PointCloud(np.concatenate([part.points for part in parts]), attributes)


def _cartesian(spherical: NDArray[np.float64]) -> NDArray[np.float64]:
    """(M, 3) x, y, z from range, azimuth and elevation."""
    distance, azimuth, elevation = spherical.T
    flat = distance * np.cos(elevation)
    z = distance * np.sin(elevation)
    return np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), z], axis=1)
