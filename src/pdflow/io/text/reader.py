"""Read a text file: names and dtypes first, then rows in chunks.

Only a pass over all rows shows which columns are whole numbers. If a file has such columns and does
not note their dtypes, the reader surveys it first. It keeps the values if they are few, or else
reads the file again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.comments import decode_comments
from pdflow.io.damage import name_file
from pdflow.io.stream import CHUNK, Header, Reader
from pdflow.io.tabular.columns import COLORS, NORMALS, Layout, noted_fields, plan_reading, take_note
from pdflow.io.tabular.rows import is_number, parse_rows
from pdflow.io.text.sniff import (
    DIALECT,
    canonical_name,
    color_columns,
    find_axes,
    open_text,
    sniff,
)

KEEP_BYTES = 1 << 26
"""Most bytes of numbers that the survey keeps."""

_SURVEY_ROWS = 100_000
_INT, _UINT, _FLOAT = np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.float64)

Columns = list[NDArray[Any]]
Limits = dict[int, tuple[int, int]]
"""Column -> its smallest and largest value."""


class TextReader(Reader):
    """An open text file. Every pass over its rows opens it again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = sniff(path)
        self._kept: Columns | None = None
        self._count = self._text.count
        metadata, note = take_note(decode_comments(self._text.comments))
        known = self._noted_dtypes(note)
        names = self._names()
        unknown = [i for i, name in enumerate(names) if name not in known and self._is_whole(i)]
        self._dtypes = [
            known.get(name, _INT if i in unknown else _FLOAT) for i, name in enumerate(names)
        ]
        limits = self._survey(unknown) if unknown else {}
        self._columns = self._names(limits)
        self._layout, self._axes = self._plan(limits, note)
        self.header = Header(self._count, dict(self._layout.fields), metadata)

    def chunks(self, size: int = CHUNK) -> Iterator[PointCloud]:
        """Clouds of at most `size` points."""
        for columns in self._blocks(size):
            points = np.stack([columns[axis] for axis in self._axes], axis=1, dtype=np.float64)
            named = dict(zip(self._columns, columns, strict=True))
            with name_file(self._path):
                attributes = self._layout.join(named)
            yield PointCloud(points, attributes, self.header.metadata)

    def _blocks(self, size: int) -> Iterator[Columns]:
        """The columns of the file, `size` rows at a time."""
        if self._kept is not None:
            for start in range(0, len(self._kept[0]), size):
                yield [column[start : start + size] for column in self._kept]
            return
        rows = 0
        with open_text(self._path, self._text.encoding) as text:
            number = sum(1 for _ in islice(text, self._text.skip)) + 1
            block: list[Columns] = []
            missing = size
            while lines := list(islice(text, missing)):
                columns = self._parse(lines, number)
                number += len(lines)
                rows += len(columns[0])
                missing -= len(columns[0])
                block.append(columns)
                if not missing:
                    yield _concatenate(block)
                    block, missing = [], size
            if missing < size:
                yield _concatenate(block)
        self._check_count(rows)

    def _parse(self, lines: Sequence[str], number: int) -> Columns:
        """The columns in these lines, in `self._dtypes`."""
        return parse_rows(lines, self._dtypes, self._path, number, self._text.style)

    def _check_count(self, rows: int) -> None:
        if self._text.count is not None and rows != self._text.count:
            raise PdflowError(
                f"{self._path} has {rows} rows, but its first line promises {self._text.count} "
                "points: it is truncated or its count is wrong."
            )

    def _is_whole(self, column: int) -> bool:
        """Whether a column other than a coordinate begins with whole numbers."""
        if column in self._axis_columns():
            return False
        values = [row[column] for row in self._text.sample if len(row) > column]
        return all(re.fullmatch(r"[+-]?[0-9]+", value) for value in values)

    def _survey(self, unknown: Sequence[int]) -> Limits:
        """Column -> its smallest and largest value, for columns of whole numbers only.

        Sets `self._dtypes`, and keeps the values if they are few.
        """
        limits: Limits = {}
        kept: list[Columns] | None = []
        size = rows = 0
        with open_text(self._path, self._text.encoding) as text:
            number = sum(1 for _ in islice(text, self._text.skip)) + 1
            while lines := list(islice(text, _SURVEY_ROWS)):
                columns = self._parse_widening(lines, number, unknown)
                number += len(lines)
                rows += len(columns[0])
                size += sum(column.nbytes for column in columns)
                if kept is not None:
                    kept = None if size > KEEP_BYTES else [*kept, columns]
                for i in unknown:
                    if len(columns[i]) and columns[i].dtype.kind in "iu":
                        low, high = int(columns[i].min()), int(columns[i].max())
                        lowest, highest = limits.get(i, (low, high))
                        limits[i] = min(low, lowest), max(high, highest)
        self._check_count(rows)
        self._count = rows
        for i, (low, _) in limits.items():
            if low < 0 and self._dtypes[i] == _UINT:
                self._dtypes[i] = _FLOAT  # no integer type holds both limits
        if kept is not None:
            self._kept = [
                np.concatenate([part.astype(dtype) for part in parts])
                for dtype, *parts in zip(self._dtypes, *kept, strict=True)
            ]
        return {i: span for i, span in limits.items() if self._dtypes[i].kind != "f"}

    def _parse_widening(self, lines: list[str], number: int, unknown: Sequence[int]) -> Columns:
        """The columns in these lines; a column with a fraction becomes float."""
        try:
            return self._parse(lines, number)
        except PdflowError:
            for i in unknown:
                if self._dtypes[i].kind != "f":
                    self._dtypes[i] = self._whole_dtype(i, lines, number)
        return self._parse(lines, number)

    def _whole_dtype(self, column: int, lines: list[str], number: int) -> np.dtype[Any]:
        for dtype in (self._dtypes[column], _UINT):
            dtypes: list[np.dtype[Any]] = [_FLOAT] * self._text.columns
            dtypes[column] = dtype
            try:
                parse_rows(lines, dtypes, self._path, number, self._text.style)
            except PdflowError:
                continue
            return dtype
        return _FLOAT

    def _axis_columns(self) -> list[int]:
        """The columns of x, y and z: the first three if the names do not show them."""
        try:
            return find_axes(self._text.names or ())
        except ValueError as missing:
            raise PdflowError(
                f"{self._path}: no column is called {missing}: name all of x, y and z, or none of "
                "them."
            ) from missing

    def _names(self, limits: Limits | None = None) -> list[str]:
        """The names of the columns, guessed from their values if the file has none."""
        if self._text.names is not None:
            return self._text.names
        count, suffix = self._text.columns, self._path.suffix.lower()
        names = ["x", "y", "z", *(f"column_{i}" for i in range(3, count))]
        is_pts = suffix == ".pts" or self._text.count is not None
        if count == 4 or (is_pts and count == 7 and self._is_color(4, limits)):
            names[3] = "intensity"
        for start in {6: [3], 7: [4] if is_pts else [], 9: [3, 6]}.get(count, []):
            stop = start + 3
            if self._is_color(start, limits) and "red" not in names:
                names[start:stop] = COLORS
            elif self._is_normal(start) and "nx" not in names:
                names[start:stop] = NORMALS
        if count >= 6 and suffix in (".xyzn", ".xyzrgb"):
            names[3:6] = NORMALS if suffix == ".xyzn" else COLORS
        return names

    def _is_color(self, start: int, limits: Limits | None) -> bool:
        """Whether three columns are whole numbers from 0 to 255: in all rows, once surveyed."""
        columns = range(start, start + 3)
        if limits is None:
            return all(self._is_whole(i) for i in columns)
        spans = [limits.get(i, (-1, 0)) for i in columns]
        return all(low >= 0 and high <= 255 for low, high in spans)

    def _is_normal(self, start: int) -> bool:
        """Whether three columns hold vectors of length 1 in the first rows."""
        rows = [row[start : start + 3] for row in self._text.sample if len(row) >= start + 3]
        vectors = [list(map(float, row)) for row in rows if all(map(is_number, row))]
        sq_lengths = np.square(np.array(vectors).reshape(-1, 3)).sum(1)
        return bool((np.abs(sq_lengths - 1) < 1e-2).all())

    def _noted_dtypes(self, note: object) -> dict[str, np.dtype[Any]]:
        """Columns whose dtype the file notes -> the dtype to parse them in."""
        known: dict[str, np.dtype[Any]] = {}
        plan = plan_reading(dict.fromkeys(self._text.names or (), _FLOAT), DIALECT, note)
        for name, columns, kind in noted_fields(note):
            if plan.parts.get(name) == tuple(columns):
                wide = _UINT if kind.dtype == _UINT else _INT
                known.update(dict.fromkeys(columns, _FLOAT if kind.dtype.kind == "f" else wide))
        return known

    def _plan(self, limits: Limits, note: object) -> tuple[Layout, list[int]]:
        """How columns become attributes, and which are the coordinates."""
        axes = self._axis_columns()
        dtypes = dict(zip(self._columns, self._dtypes, strict=True))
        words = [canonical_name(name) for name in self._columns]
        colors = color_columns(self._columns)
        tilted = any(self._dtypes[i] == _FLOAT for i, word in enumerate(words) if word in NORMALS)
        for i, (low, high) in limits.items():
            if self._columns[i] in colors and low >= 0 and high <= 65535:
                dtypes[self._columns[i]] = np.dtype(np.uint8 if high <= 255 else np.uint16)
            elif words[i] in NORMALS and tilted:
                dtypes[self._columns[i]] = _FLOAT  # a column of 0 and 1 beside fractions
        for axis in axes:
            del dtypes[self._columns[axis]]
        return plan_reading(dtypes, DIALECT, note), axes


def _concatenate(blocks: Sequence[Columns]) -> Columns:
    if len(blocks) == 1:
        return blocks[0]
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
