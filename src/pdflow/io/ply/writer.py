"""Write a PLY file in chunks: the vertices first, then the other elements."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.comments import encode_comments, is_plain_comment
from pdflow.io.exact import is_exact
from pdflow.io.losses import SingleRounding, warn_of_losses
from pdflow.io.ply.ascii import encode_ascii
from pdflow.io.ply.binary import Table, encode_binary
from pdflow.io.ply.header import (
    BYTE_ORDERS,
    LINE_LIMIT,
    TYPE_NAMES,
    TYPES,
    Element,
    PlyHeader,
    Property,
    reserve_bytes,
)
from pdflow.io.ply.reader import DIALECT
from pdflow.io.stream import Header, Writer
from pdflow.io.tabular.columns import COORDINATES, is_plain_name, plan_writing, with_note


class PlyWriter(Writer):
    """A PLY file that is written in chunks.

    cloud  the whole cloud if known: its values decide the dtypes, and the header needs no spare
           room for the final count
    """

    def __init__(self, path: Path, header: Header, cloud: PointCloud | None = None) -> None:
        own, metadata = _split_metadata(header.metadata)
        self._losses: list[str] = []
        self._tables = _valid_tables(own.get("elements"), self._losses)
        self._vertices = own.get("vertices")
        self._plan_vertices(header, own, cloud)
        lines, lost = encode_comments(with_note(metadata, self._layout), LINE_LIMIT)
        self._losses += self._layout.losses + lost
        self._ply = PlyHeader(own["format"], [], lines, own.get("obj_info", []))
        if cloud is None:
            self._describe(header.count or 0, list(self._tables))
            self._size = reserve_bytes(self._ply)
        else:
            self._describe(len(cloud), self._tables_of(len(cloud)))
            self._size = 0
        self._count = 0
        self._rounding = SingleRounding()
        self._file = path.open("wb")
        self._file.write(self._ply.render(self._size))

    def write(self, chunk: PointCloud) -> None:
        """Append points with exactly the attributes of the header."""
        element = replace(self._vertex, count=len(chunk))
        points: NDArray[Any] = chunk.points
        if self._vertex.properties[0].dtype.kind != "f":
            points = points.astype(np.int64)  # so that text has no decimal points
        elif self._vertex.properties[0].dtype == np.float32 and self._ply.format != "ascii":
            self._rounding.add(chunk.points)
        table: Table = dict(zip(COORDINATES, points.T, strict=True))
        table.update(self._layout.split(chunk.attributes))
        for name, count_dtype in self._lists.items():
            values = chunk.attributes[name]
            counts = np.full(len(chunk), values.shape[1], count_dtype)
            table[name] = {"counts": counts, "values": values.reshape(-1)}
        for name, lists in self._ragged.items():
            table[name] = _list_rows(lists, self._count, self._count + len(chunk))
        self._write_rows(element, table)
        self._count += len(chunk)

    def finish(self) -> None:
        """Write the other elements, correct the counts and close the file."""
        try:
            if self._ragged and self._count != self._vertices:
                raise PdflowError(
                    f"{self._count} points were written, but {self._vertices} have lists of their "
                    "own: keep all points, or remove metadata['ply']['ragged']."
                )
            held = self._tables_of(self._count)
            for name, (element, table) in self._tables.items():
                if name in held:
                    self._write_rows(element, table)
                else:
                    self._losses.append(f"element {name!r} (it refers to removed points)")
            self._describe(self._count, held)
            self._file.seek(0)
            self._file.write(self._ply.render(self._size))
            warn_of_losses("PLY", self._losses + self._rounding.losses)
        finally:
            self._file.close()

    def abort(self) -> None:
        """Close the file without completing it."""
        self._file.close()

    def _plan_vertices(self, header: Header, own: dict[str, Any], cloud: PointCloud | None) -> None:
        """Choose the properties of a vertex."""
        self._ragged = own.get("ragged", {})
        if self._ragged and header.count != self._vertices:
            self._losses += [f"list {name!r} (its points have changed)" for name in self._ragged]
            self._ragged = {}
        fields = dict(header.fields)
        self._lists: dict[str, np.dtype[Any]] = {}
        for name, count_type in own.get("lists", {}).items():
            kind, dtype = fields.get(name), TYPES.get(str(count_type))
            if kind is None or dtype is None or kind.dtype not in TYPE_NAMES or name in COORDINATES:
                continue
            if is_plain_name(name) and dtype.kind != "f" and 0 < kind.width <= np.iinfo(dtype).max:
                self._lists[name] = dtype
        reserved = DIALECT.reserved | set(self._ragged) | set(self._lists)
        self._layout = plan_writing(
            {name: kind for name, kind in fields.items() if name not in self._lists},
            replace(DIALECT, reserved=reserved),
            None if cloud is None else cloud.attributes,
        )
        dtype = _coordinate_dtype(own, header, None if cloud is None else cloud.points)
        scalars = {**dict.fromkeys(COORDINATES, dtype), **self._layout.columns}
        properties = [Property(name, dtype) for name, dtype in scalars.items()]
        properties += [Property(n, fields[n].dtype, c) for n, c in self._lists.items()]
        properties += [
            Property(name, lists["values"].dtype, lists["counts"].dtype)
            for name, lists in self._ragged.items()
        ]
        self._vertex = Element("vertex", 0, tuple(properties))

    def _tables_of(self, count: int) -> list[str]:
        """The other elements that are still valid with this many vertices."""
        return [
            name
            for name, (element, _) in self._tables.items()
            if count == self._vertices or not _names_vertices(element)
        ]

    def _describe(self, count: int, held: list[str]) -> None:
        """Set the elements of the header."""
        others = [self._tables[name][0] for name in held]
        self._ply.elements = [replace(self._vertex, count=count), *others]

    def _write_rows(self, element: Element, table: Mapping[str, Any]) -> None:
        if self._ply.format == "ascii":
            self._file.write(encode_ascii(element, table).encode())
        else:
            with np.errstate(over="ignore"):
                self._file.write(encode_binary(element, table, self._ply.order).data)


def _split_metadata(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The valid entries of metadata["ply"], and all metadata that goes into comments."""
    ply = metadata.get("ply")
    kept = dict(ply) if isinstance(ply, dict) else {}
    own: dict[str, Any] = {"format": "binary_little_endian"}
    checks: dict[str, Callable[[Any], bool]] = {
        "format": lambda value: isinstance(value, str) and value in BYTE_ORDERS,
        "coordinates": lambda value: isinstance(value, str) and value in TYPES,
        "obj_info": lambda value: isinstance(value, list) and all(map(is_plain_comment, value)),
        "elements": lambda value: isinstance(value, dict),
        "vertices": lambda value: isinstance(value, int),
        "lists": lambda value: isinstance(value, dict),
        "ragged": lambda value: (
            isinstance(value, dict) and all(map(_is_list_table, value.values()))
        ),
    }
    for key, is_right in checks.items():
        if key in kept and is_right(kept[key]):
            own[key] = kept.pop(key)
    rest = {key: value for key, value in metadata.items() if key != "ply"}
    if kept or (ply is not None and not isinstance(ply, dict)):
        rest["ply"] = kept or ply
    return own, rest


def _coordinate_dtype(
    own: Mapping[str, Any], header: Header, points: NDArray[np.float64] | None
) -> np.dtype[Any]:
    """The dtype of the original file if it is exact, as it always is in text."""
    double = np.dtype(np.float64)
    needed = header.point_dtype if header.point_dtype in TYPE_NAMES else double
    if "coordinates" not in own:
        return needed
    kept = TYPES[own["coordinates"]]
    known_exact = points is not None and is_exact(points, kept)
    text_of_floats = own["format"] == "ascii" and kept.kind == "f"
    return kept if kept == double or known_exact or text_of_floats else needed


def _valid_tables(elements: object, losses: list[str]) -> dict[str, tuple[Element, Table]]:
    """The other elements that can be written; `losses` names the rest."""
    tables: dict[str, tuple[Element, Table]] = {}
    for name, kept in elements.items() if isinstance(elements, dict) else ():
        try:
            count, table = int(kept["count"]), dict(kept["properties"])
            properties = tuple(_property(key, values, count) for key, values in table.items())
            if not is_plain_name(name) or name == "vertex" or count < 0:
                raise ValueError("not an element")
        except (KeyError, TypeError, ValueError, AttributeError):
            losses.append(f"element {name!r}")
        else:
            tables[name] = Element(name, count, properties), table
    return tables


def _property(name: str, values: Any, count: int) -> Property:
    """The property that holds these values of an element with `count` rows."""
    if not is_plain_comment(name) or not name:
        raise ValueError("not a property name")
    if isinstance(values, np.ndarray) and values.shape == (count,) and values.dtype in TYPE_NAMES:
        return Property(name, values.dtype)
    if _is_list_table(values) and len(values["counts"]) == count:
        return Property(name, values["values"].dtype, values["counts"].dtype)
    raise ValueError("not the values of a property")


def _is_list_table(lists: Any) -> bool:
    """Whether this is `{"counts": ..., "values": ...}` with matching sizes."""
    if not isinstance(lists, dict) or set(lists) != {"counts", "values"}:
        return False
    counts, values = lists["counts"], lists["values"]
    arrays = isinstance(counts, np.ndarray) and isinstance(values, np.ndarray)
    return (
        arrays
        and counts.dtype in TYPE_NAMES
        and values.dtype in TYPE_NAMES
        and counts.dtype.kind != "f"
        and counts.ndim == values.ndim == 1
        and bool((counts >= 0).all())
        and int(counts.sum(dtype=np.int64)) == len(values)
    )


def _names_vertices(element: Element) -> bool:
    """Whether rows refer to vertices by index, as faces and edges do."""
    numbers = [p.name for p in element.properties if p.dtype.kind in "iu"]
    return any(re.fullmatch(r"vertex.*|v\d", name) for name in numbers)


def _list_rows(lists: Mapping[str, NDArray[Any]], start: int, stop: int) -> Table:
    ends = np.concatenate([[0], np.cumsum(lists["counts"], dtype=np.int64)])
    stop = min(stop, len(lists["counts"]))
    start = min(start, stop)
    return {
        "counts": lists["counts"][start:stop],
        "values": lists["values"][ends[start] : ends[stop]],
    }
