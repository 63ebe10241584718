"""Read an E57 file: the headers of its scans at once, their points in chunks, in one frame."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import LossWarning, PdflowError
from pdflow.io.comments import decode_comments
from pdflow.io.damage import explain_damage
from pdflow.io.e57.buffers import read_pieces
from pdflow.io.e57.fields import (
    ABSENT,
    ATTRIBUTES,
    DIRECTION,
    METADATA,
    POSITION,
    PREFIX,
    SCAN,
    SPHERICAL,
    SPHERICAL_STATE,
    STATE,
    Column,
    columns_to_read,
    field_types,
    record_bits,
)
from pdflow.io.e57.pose import Pose
from pdflow.io.e57.scan import DERIVED
from pdflow.io.e57.tree import libe57_module, read_tree
from pdflow.io.stream import CHUNK, Field, Header, Reader

_FORMAL = ("formatName", "versionMajor", "versionMinor", "e57LibraryVersion")
_ROOT = frozenset((*_FORMAL, "data3D", "coordinateMetadata", METADATA, ATTRIBUTES))
_DAMAGED = "it is damaged or not an E57 file"


@dataclass(frozen=True)
class _Plan:
    """How a scan is read.

    count     points that its header promises
    place     point fields of the coordinates
    single    whether the cloud's coordinates are exact in single precision
    columns   attributes in its point fields
    directed  whether some of its points have only a direction
    pose      from its frame to the common one
    """

    count: int
    place: tuple[str, ...]
    single: bool
    columns: list[Column]
    types: dict[str, np.dtype[Any]]
    directed: bool
    pose: Pose

    @property
    def attributes(self) -> dict[str, Field]:
        """The attributes of its points."""
        made = {DIRECTION: Field(np.dtype(np.float64), 3)} if self.directed else {}
        return {**{c.name: c.kind for c in self.columns}, **made}


class E57Reader(Reader):
    """An E57 file. Every pass over its points opens it again.

    The header of a file does not say whether `direction` is needed: where a scan has a field for
    invalid points, that field is read first.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._libe57 = path, libe57_module("Reading E57")
        self._texts: set[str] = set()
        with explain_damage(path, _DAMAGED), self._opened() as file:
            root = file.root()
            extensions = {
                file.extensionsPrefix(i): file.extensionsUri(i)
                for i in range(file.extensionsCount())
            }
            own = PREFIX in extensions
            notes = _own(root, ATTRIBUTES).get("attributes", []) if own else []
            if not root.isDefined("data3D") or not root["data3D"].childCount():
                raise PdflowError(f"{path} holds no scans: choose another file.")
            nodes = list(root["data3D"])
            self._check_counts(nodes)
            scans = [read_tree(node, self._libe57, frozenset(DERIVED)) for node in nodes]
            self._plans = [
                self._plan(i, nodes[i]["points"], Pose.of(scan), notes, file)
                for i, scan in enumerate(scans)
            ]
            fields = self._fields(scans)
            metadata = _own(root, METADATA) if own else {}
            e57 = read_tree(root, self._libe57, _ROOT)
            e57["extensions"] = {p: u for p, u in extensions.items() if p not in ("", PREFIX)}
            e57["scans"] = scans
            metadata["e57"] = e57
            crs = root["coordinateMetadata"].value() if root.isDefined("coordinateMetadata") else ""
            if crs:
                metadata["crs"] = crs
        dtype = np.dtype(np.float32 if all(p.single for p in self._plans) else np.float64)
        self.header = Header(sum(p.count for p in self._plans), fields, metadata, dtype)

    def chunks(self, size: int = CHUNK) -> Iterator[PointCloud]:
        """Clouds of at most `size` points, scan after scan."""
        if self._texts:
            names = ", ".join(sorted(self._texts))
            message = f"{self._path}: the point fields {names} hold text: left out."
            warnings.warn(message, LossWarning, stacklevel=2)
        parts, waiting = [], 0
        with closing(self._parts(size)) as every:
            for part in every:
                parts.append(part)
                waiting += len(part)
                if waiting >= size:
                    joined = _joined(parts)
                    yield joined[:size]
                    waiting -= size
                    parts = [joined[size:]] if waiting else []
        if waiting:
            yield _joined(parts)

    def _parts(self, size: int) -> Generator[PointCloud]:
        """The points of each scan, at most `size` at a time."""
        with self._opened() as file:
            for index, plan in enumerate(self._plans):
                with explain_damage(self._path, _DAMAGED):
                    points, count = file.root()["data3D"][index]["points"], 0
                with closing(read_pieces(points, plan.types, size, file, self._libe57)) as pieces:
                    while True:
                        with explain_damage(self._path, f"the points of scan {index} are damaged"):
                            values = next(pieces, None)
                            part = None if values is None else self._part(index, plan, values)
                        if part is None:
                            break
                        count += len(part)
                        yield part
                if count != plan.count:
                    raise PdflowError(
                        f"{self._path}: scan {index} has {count} points, but its header promises "
                        f"{plan.count}: it is truncated, fetch it again."
                    )

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with explain_damage(self._path, _DAMAGED):
            file = self._libe57.ImageFile(str(self._path), "r")
        try:
            yield file
        finally:
            file.close()

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

    def _plan(self, index: int, points: Any, pose: Pose, notes: list[Any], file: Any) -> _Plan:
        """How to read the scan with this number."""
        prototype = self._libe57.StructureNode(points.prototype())
        every = field_types(prototype, self._libe57)
        types = {name: dtype for name, dtype in every.items() if dtype is not None}
        self._texts |= {name for name, dtype in every.items() if dtype is None}
        columns = columns_to_read(types, notes)
        place = next((p for p in (POSITION, SPHERICAL) if all(f in types for f in p)), None)
        if place is None:
            raise PdflowError(f"{self._path}: scan {index} has no coordinates: it is damaged.")
        if not pose.valid:
            raise PdflowError(f"{self._path}: the pose of scan {index} is invalid: it is damaged.")
        if place == SPHERICAL and SPHERICAL_STATE in types:
            columns = [c for c in columns if c.name != STATE]
            columns.append(Column(STATE, Field(types[SPHERICAL_STATE]), (SPHERICAL_STATE,)))
        wanted = {f: types[f] for c in columns for f in c.fields}
        wanted.update({f: np.dtype(np.float64) for f in place})
        still = not pose.turns and not pose.translation.any()
        single = still and place == POSITION and all(types[f] == np.float32 for f in place)
        directed = False
        for column in columns:
            if column.name == STATE and not column.kind.width:
                some = {f: wanted[f] for f in column.fields}
                with closing(read_pieces(points, some, CHUNK, file, self._libe57)) as pieces:
                    directed = any((column.get(values) == 1).any() for values in pieces)
        return _Plan(points.childCount(), place, single, columns, wanted, directed, pose)

    def _fields(self, scans: list[dict[str, Any]]) -> dict[str, Field]:
        """The attributes of all scans; those that a scan lacks are noted in its metadata."""
        parts = [plan.attributes for plan in self._plans]
        if len(parts) == 1:
            return parts[0]
        fields = {}
        for name in dict.fromkeys(name for part in parts for name in part):
            there = [part[name] for part in parts if name in part]
            if len({kind.width for kind in there}) > 1:
                raise PdflowError(
                    f"{self._path}: the scans have the attribute {name!r} with different numbers "
                    "of columns: it is damaged."
                )
            dtype = np.result_type(*(kind.dtype for kind in there))
            fields[name] = Field(dtype, there[0].width)
        for part, scan in zip(parts, scans, strict=True):
            absent = sorted(n for n in fields if n not in part and n != DIRECTION)
            if absent:
                scan[ABSENT] = absent
        fields[SCAN] = Field(np.dtype(np.int32))
        return fields

    def _part(self, index: int, plan: _Plan, values: dict[str, NDArray[Any]]) -> PointCloud:
        """Points of a scan in the common frame, with the attributes of all scans."""
        local = np.stack([values[f] for f in plan.place], axis=1)
        local = _cartesian(local) if plan.place == SPHERICAL else local
        found = {c.name: c.get(values) for c in plan.columns}
        common = plan.pose.to_common(local)
        normals = found.get("normals")
        if normals is not None and normals.dtype.kind == "f":
            found["normals"] = plan.pose.turned(normals)
        state = found.get(STATE)
        if state is not None and state.ndim == 1:
            common[state != 0] = np.nan
            if plan.directed:
                direction = np.full_like(local, np.nan)
                direction[state == 1] = plan.pose.turned(local[state == 1])
                found[DIRECTION] = direction
        if len(self._plans) > 1:
            found[SCAN] = np.full(len(local), index, np.int32)
        attributes = {
            name: found[name].astype(kind.dtype, copy=False)
            if name in found
            else _missing(len(local), kind)
            for name, kind in self.header.fields.items()
        }
        return PointCloud(common, attributes, self.header.metadata)


def _own(root: Any, name: str) -> dict[str, Any]:
    """The entries that pdflow wrote into the file, if any."""
    if not root.isDefined(name):
        return {}
    return decode_comments(str(root[name].value()).split("\n"))


def _joined(parts: list[PointCloud]) -> PointCloud:
    """One cloud; a single part keeps its byte order."""
    return parts[0] if len(parts) == 1 else PointCloud.concatenate(parts)


def _missing(count: int, kind: Field) -> NDArray[Any]:
    """Values for points of a scan that lacks an attribute."""
    shape = (count, kind.width) if kind.width else (count,)
    fill = np.nan if kind.dtype.kind in "fc" else np.zeros((), kind.dtype)
    return np.full(shape, fill, kind.dtype)


def _cartesian(spherical: NDArray[np.float64]) -> NDArray[np.float64]:
    """(M, 3) x, y, z from range, azimuth and elevation."""
    distance, azimuth, elevation = spherical.T
    flat = distance * np.cos(elevation)
    z = distance * np.sin(elevation)
    return np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), z], axis=1)
