"""Read a PLY file: header and other elements at once, vertices in chunks."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.comments import decode_comments
from pdflow.io.damage import name_file
from pdflow.io.ply.ascii import decode_ascii
from pdflow.io.ply.binary import Table, cut_short, decode_binary
from pdflow.io.ply.header import TYPE_NAMES, Element, Property, parse_header
from pdflow.io.stream import CHUNK, Field, Header, Reader
from pdflow.io.tabular.columns import COORDINATES, Dialect, Layout, plan_reading, take_note

DIALECT = Dialect(frozenset(TYPE_NAMES))


class PlyReader(Reader):
    """An open PLY file. Vertices with lists are read at once, others in chunks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        self._start = 0
        try:
            self._ply = parse_header(self._file, path)
            self._size = path.stat().st_size
            self._vertex = self._find_vertex()
            ascii_text = self._ply.format == "ascii"
            tables = self._read_ascii_tables() if ascii_text else self._read_binary_tables()
            self._describe(tables)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def chunks(self, size: int = CHUNK) -> Iterator[PointCloud]:
        """Clouds of at most `size` points."""
        for table in self._vertex_tables(size):
            points = np.stack([table[name] for name in COORDINATES], axis=1, dtype=np.float64)
            with name_file(self._path):
                attributes = self._layout.join(table)
            for name, kept in self._lists.items():
                attributes[name] = table[kept]["values"].reshape(len(points), -1)
            order = [name for name in self.header.fields if name in attributes]
            yield PointCloud(
                points, {name: attributes[name] for name in order}, self.header.metadata
            )

    def _vertex_tables(self, size: int) -> Iterator[Table]:
        """The rows of the vertices, in tables of at most `size` rows."""
        if self._whole is not None:
            for start in range(0, self._vertex.count, size):
                yield _rows(self._whole, start, min(start + size, self._vertex.count))
        elif self._ply.format == "ascii":
            yield from self._ascii_vertices(size)
        else:
            yield from self._binary_vertices(size)

    def _ascii_vertices(self, size: int) -> Iterator[Table]:
        in_full = self._with_all_digits(self._vertex)
        with _Lines(self._path, self._ply.size, self._ply.lines) as lines:
            for element in self._ply.elements[: self._ply.elements.index(self._vertex)]:
                lines.take(element.count, element)
            for start in range(0, self._vertex.count, size):
                number = lines.next_line
                rows = lines.take(min(size, self._vertex.count - start), self._vertex)
                yield decode_ascii(rows, number, in_full, self._path)
            if self._vertex is self._ply.elements[-1]:
                lines.require_end()

    def _with_all_digits(self, element: Element) -> Element:
        """Vertices with float64 coordinates: text may have more digits than float32."""
        if element is not self._vertex:
            return element
        double = np.dtype(np.float64)
        properties = [
            Property(p.name, double) if p.name in COORDINATES and not p.is_list else p
            for p in element.properties
        ]
        return Element(element.name, element.count, tuple(properties))

    def _binary_vertices(self, size: int) -> Iterator[Table]:
        row = self._vertex.row_dtype(self._ply.order)
        for start in range(0, self._vertex.count, size):
            count = min(size, self._vertex.count - start)
            self._file.seek(self._start + start * row.itemsize)
            data = self._file.read(count * row.itemsize)
            if len(data) < count * row.itemsize:
                raise cut_short(self._vertex, self._path)
            values = np.frombuffer(data, row)
            yield {p.name: values[p.name] for p in self._vertex.properties}

    def _find_vertex(self) -> Element:
        for element in self._ply.elements:
            if element.name == "vertex":
                scalars = {p.name for p in element.properties if not p.is_list}
                missing = [name for name in COORDINATES if name not in scalars]
                if missing:
                    raise PdflowError(
                        f"{self._path}: the vertices have no {' and no '.join(missing)}: a cloud "
                        "needs x, y and z."
                    )
                return element
        raise PdflowError(
            f"{self._path}: the PLY header has no element 'vertex': it is not a cloud."
        )

    def _read_binary_tables(self) -> dict[str, Table]:
        """All elements; of vertices without lists only their first byte."""
        tables: dict[str, Table] = {}
        at, data, base = self._ply.size, b"", 0
        for element in self._ply.elements:
            end = at + element.count * element.row_bytes
            if end > self._size:
                raise cut_short(element, self._path)
            if element is self._vertex and not element.has_lists:
                self._start, at, data = at, end, b""
                continue
            if not data:
                base = at
                self._file.seek(at)
                data = self._file.read() if element.has_lists else self._file.read(end - at)
            table, stop = decode_binary(data, at - base, element, self._ply.order, self._path)
            tables[element.name] = table
            at = base + stop
            data = data if element.has_lists else b""
        if self._size - at >= max(self._ply.elements[-1].row_bytes, 1):
            raise PdflowError(
                f"{self._path}: {self._size - at} bytes follow after the rows that the header "
                "promises: correct the counts in the header."
            )
        return tables

    def _read_ascii_tables(self) -> dict[str, Table]:
        """All elements except vertices without lists, which are skipped."""
        least = sum(2 * e.count * len(e.properties) for e in self._ply.elements)
        if least > self._size - self._ply.size + 1:
            raise cut_short(max(self._ply.elements, key=lambda e: e.count), self._path)
        tables: dict[str, Table] = {}
        with _Lines(self._path, self._ply.size, self._ply.lines) as lines:
            for element in self._ply.elements:
                if element is self._vertex and not element.has_lists:
                    if element is self._ply.elements[-1]:
                        return tables
                    for start in range(0, element.count, CHUNK):
                        lines.take(min(CHUNK, element.count - start), element)
                    continue
                number = lines.next_line
                rows = lines.take(element.count, element)
                in_full = self._with_all_digits(element)
                tables[element.name] = decode_ascii(rows, number, in_full, self._path)
            lines.require_end()
        return tables

    def _describe(self, tables: dict[str, Table]) -> None:
        """Set the header and the mapping from vertices to attributes."""
        metadata, note = take_note(decode_comments(self._ply.comments))
        ply = self._kept(tables, metadata.pop("ply", None))
        scalars = {p.name: p.dtype for p in self._vertex.properties if not p.is_list}
        coordinates = np.result_type(*(scalars.pop(name) for name in COORDINATES))
        ply["coordinates"] = TYPE_NAMES.get(coordinates, "double")
        self._layout: Layout = plan_reading(scalars, DIALECT, note)
        fields = dict(self._layout.fields)

        self._whole: Table | None = tables.get("vertex")
        self._lists: dict[str, str] = {}
        for p in self._vertex.properties:
            if not p.is_list or self._whole is None:
                continue
            width = _width(self._whole[p.name]["counts"])
            if width:
                name = p.name
                while name in fields:
                    name += "_"
                self._lists[name] = p.name
                fields[name] = Field(p.dtype, width)
                assert p.count_dtype is not None
                ply.setdefault("lists", {})[name] = TYPE_NAMES[p.count_dtype]
            else:
                ply.setdefault("ragged", {})[p.name] = self._whole[p.name]
        if "elements" in ply or "ragged" in ply:
            ply["vertices"] = self._vertex.count
        single = self._ply.format != "ascii" and np.can_cast(coordinates, np.float32, "safe")
        self.header = Header(
            self._vertex.count,
            fields,
            {**metadata, "ply": ply},
            np.dtype(np.float32 if single else np.float64),
        )

    def _kept(self, tables: dict[str, Table], foreign: Any) -> dict[str, Any]:
        """metadata["ply"]: what only a PLY file knows."""
        ply: dict[str, Any] = dict(foreign) if isinstance(foreign, dict) else {}
        ply["format"] = self._ply.format
        if self._ply.obj_info:
            ply["obj_info"] = self._ply.obj_info
        elements = {
            e.name: {"count": e.count, "properties": tables[e.name]}
            for e in self._ply.elements
            if e is not self._vertex
        }
        if elements:
            ply["elements"] = elements
        return ply


class _Lines:
    """The data lines of an ASCII file, with their numbers."""

    def __init__(self, path: Path, start: int, header_lines: int) -> None:
        self._path = path
        file = path.open("rb")
        file.seek(start)
        self._text = io.TextIOWrapper(file, "latin-1")
        self.next_line = header_lines + 1

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self._text.close()

    def take(self, rows: int, element: Element) -> list[str]:
        """The next lines with this many rows; blank lines do not count."""
        if not element.properties:
            return []
        lines: list[str] = []
        while rows:
            more = list(islice(self._text, rows))
            if not more:
                raise cut_short(element, self._path)
            rows -= len(more) - sum(map(str.isspace, more))
            lines += more
        self.next_line += len(lines)
        return lines

    def require_end(self) -> None:
        """Refuse a file with more rows than the header promises."""
        for line in self._text:
            if not line.isspace():
                raise PdflowError(
                    f"{self._path}, line {self.next_line}: there are more rows than the header "
                    "promises: correct the counts in the header."
                )
            self.next_line += 1


def _width(counts: NDArray[Any]) -> int:
    """The common length of all lists, or 0 if they differ or are empty."""
    return int(counts[0]) if len(counts) and (counts == counts[0]).all() else 0


def _rows(table: Table, start: int, stop: int) -> Table:
    """Rows of a table, with the values of lists that all have one length."""
    part: Table = {}
    for name, values in table.items():
        if not isinstance(values, dict):
            part[name] = values[start:stop]
            continue
        width = _width(values["counts"])
        part[name] = {
            "counts": values["counts"][start:stop],
            "values": values["values"][start * width : stop * width],
        }
    return part
