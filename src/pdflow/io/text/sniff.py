"""The layout of a text file: encoding, comments, names, delimiter, start of the rows."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pdflow.errors import PdflowError
from pdflow.io.metadata import PREFIX
from pdflow.io.tabular.columns import COLORS, Dialect, Dtypes, distinct_names, is_plain_name
from pdflow.io.tabular.rows import COMMENT_MARKS, RowStyle, is_comment, is_number

_ALIASES = {
    "red": ("red", "r", "rf"),
    "green": ("green", "g", "gf"),
    "blue": ("blue", "b", "bf"),
    "nx": ("nx", "normal_x", "normalx"),
    "ny": ("ny", "normal_y", "normaly"),
    "nz": ("nz", "normal_z", "normalz"),
    "intensity": ("intensity", "i"),
    "classification": ("classification", "class"),
    "gps_time": ("gps_time", "gpstime"),
}
_OTHER_AXES = (
    ("easting", "east", "longitude", "lon", "long"),
    ("northing", "north", "latitude", "lat"),
    ("elevation", "elev", "height", "altitude", "alt", "h", "up"),
)
"""Names of the coordinates in files without x, y and z."""

_WORDS = {"x": "x", "y": "y", "z": "z"} | {w: name for name in _ALIASES for w in _ALIASES[name]}
_DELIMITERS = ",;|"
_GAP = rf"[\s{_DELIMITERS}]+"
_HEAD_BYTES = 1 << 16
_LONGEST_LINE = 1 << 20
_SAMPLE_ROWS = 1000


def canonical_name(name: str) -> str:
    """The common name of a well-known column in any spelling; other names stay.

    >>> [canonical_name(name) for name in ("X", "R", "Normal_X", "Intensity", "Height")]
    ['x', 'red', 'nx', 'intensity', 'Height']
    """
    return _WORDS.get(name.lower(), name)


def find_axes(names: Sequence[str]) -> list[int]:
    """The columns of x, y and z by name, or the first three if no name matches.

    >>> find_axes(["id", "z", "y", "X"]), find_axes(["lat", "lon", "h"]), find_axes(["a", "b", "c"])
    ([3, 2, 1], [1, 0, 2], [0, 1, 2])

    If only some of x, y and z are there, a ValueError names the missing ones.
    """
    words = [canonical_name(name) for name in names]
    missing = [axis for axis in "xyz" if axis not in words]
    if not missing:
        return [words.index(axis) for axis in "xyz"]
    if len(missing) < 3:
        raise ValueError(" or ".join(missing))
    lower = [name.lower() for name in names]
    others = [[i for i, name in enumerate(lower) if name in axis] for axis in _OTHER_AXES]
    return [found[0] for found in others] if all(len(f) == 1 for f in others) else [0, 1, 2]


def is_legal_name(name: str) -> bool:
    """Whether a name in a header line differs from delimiters and numbers."""
    return is_plain_name(name) and not set(name) & {*_DELIMITERS, '"', "'"} and not is_number(name)


def inferred_dtypes(columns: Dtypes) -> Dtypes:
    """The dtypes in which numbers come back from a file without a note."""
    colors = color_columns(columns)
    double, whole, color = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.uint8)
    return {
        name: double if dtype.kind == "f" else color if name in colors else whole
        for name, dtype in columns.items()
    }


def color_columns(names: Iterable[str]) -> set[str]:
    """The columns red, green and blue; none if one of them is missing."""
    words = {name: canonical_name(name) for name in names}
    found = {name for name, word in words.items() if word in COLORS}
    return found if len({words[name] for name in found}) == len(COLORS) else set()


DIALECT = Dialect(
    frozenset(np.dtype(code) for code in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"))
    | frozenset(np.dtype(code) for code in ("f2", "f4", "f8")),
    canonical=canonical_name,
    inferred=inferred_dtypes,
    is_legal=is_legal_name,
)


@dataclass(frozen=True)
class TextLayout:
    """What the beginning of a file shows.

    encoding  of the text
    style     of the rows
    skip      lines before the first row
    columns   values in a row
    names     of the columns, or None
    comments  before the first row (after the last one if the file begins with its count)
    count     of the rows, or None
    sample    the first rows, split into values
    """

    encoding: str
    style: RowStyle
    skip: int
    columns: int
    names: list[str] | None
    comments: list[str]
    count: int | None
    sample: list[list[str]]


def open_text(path: Path, encoding: str) -> io.TextIOWrapper:
    """The file as text with any line ends; invalid bytes are replaced, not refused."""
    return path.open(encoding=encoding, errors="replace", newline=None)


def sniff(path: Path) -> TextLayout:
    """Detect the layout of a file from as few lines as possible."""
    with path.open("rb") as file:
        encoding = _encoding(file.read(_HEAD_BYTES), path)
    comments: list[str] = []
    header: list[str] | None = None
    header_line = ""
    count = None
    with open_text(path, encoding) as text:
        for number, line in _lines(text, path):
            if is_comment(line):
                comments += [_comment(line)] if line.strip() else []
                continue
            if any(_row_styles(line)):
                break
            place = f"{path}, line {number}"
            values = re.split(_GAP, line.strip())
            if count is None and len(values) == 1 and values[0].isascii() and values[0].isdigit():
                count = int(values[0])
            elif not header_line and not any(map(is_number, values)):
                header_line = line
            else:
                raise PdflowError(
                    f"{place}: {_what_is_wrong(values)}: correct or remove that line."
                )
        else:
            raise PdflowError(f"{path} holds no row of numbers: a cloud needs x, y and z.")
        sample = [line, *(row for row in islice(text, _SAMPLE_ROWS) if not is_comment(row))]
    style = _common_style(sample)
    rows = [style.split(row) for row in sample]
    columns = len(rows[0])
    if header_line:
        header = style.split(header_line)
        header = header if len(header) == columns else _words(header_line)
        if len(header) != columns:
            raise PdflowError(
                f"{path}: the header names {len(header)} columns, but line {number} has {columns} "
                "values: give each column one name."
            )
    if count is not None and encoding in ("utf-8", "latin-1"):
        comments += _trailing_comments(path, encoding)
    if header is None and comments and _names_coordinates(comments[-1], columns):
        header = _words(comments.pop())
    names = None if header is None else distinct_names(header)
    return TextLayout(encoding, style, number - 1, columns, names, comments, count, rows)


def _encoding(head: bytes, path: Path) -> str:
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return name
    if b"\0" in head:
        raise PdflowError(
            f"{path} is not text, because byte {head.index(0)} is zero: give its real format, or "
            "repair it."
        )
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def _lines(text: io.TextIOWrapper, path: Path) -> Iterator[tuple[int, str]]:
    number = 0
    while line := text.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise PdflowError(f"{path}, line {number}: too long to be a row of numbers.")
        yield number, line


def _row_styles(line: str) -> Iterator[RowStyle]:
    """The styles in which a line is a row of at least three numbers, the likeliest first."""
    for decimal_comma in (False, True):
        for delimiter in (None, *_DELIMITERS):
            ends = delimiter is not None and line.rstrip().endswith(delimiter)
            style = RowStyle(delimiter, decimal_comma, ends)
            values = style.split(line)
            if len(values) >= 3 and all(map(is_number, values)):
                yield style


def _common_style(sample: list[str]) -> RowStyle:
    """A style of all these rows, or else of the first: 1,5;2;3 may follow after 1;2;3."""
    styles = list(_row_styles(sample[0]))
    for style in styles:
        if all(is_number(value) for row in sample for value in style.split(row)):
            return style
    return styles[0]


def _what_is_wrong(values: list[str]) -> str:
    for value in values:
        if not is_number(value):
            return f"{value[:40]!r} is not a number"
    return f"{len(values)} values, but a point needs at least 3"


def _comment(line: str) -> str:
    """The text of a comment without its mark and the blank after it."""
    line = line.strip()
    mark = next(mark for mark in COMMENT_MARKS if line.startswith(mark))
    return line[len(mark) :].removeprefix(" ")


def _words(line: str) -> list[str]:
    return [word.strip("\"'") for word in re.split(_GAP, line.strip(" \t\r\n" + _DELIMITERS))]


def _names_coordinates(line: str, columns: int) -> bool:
    """Whether a comment names the columns."""
    words = _words(line)
    known = {canonical_name(word) for word in words}
    return (
        len(words) == columns
        and known >= {"x", "y", "z"}
        and not any(map(is_number, words))
        and not line.startswith(PREFIX)
    )


def _trailing_comments(path: Path, encoding: str) -> list[str]:
    """The comments after the last row."""
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        length = _HEAD_BYTES
        while True:
            lines = _tail(file, size, min(length, size))
            rows = [i for i, line in enumerate(lines) if line.strip() and line[:1] != b"#"]
            if rows or length >= size:
                break
            length *= 4
    last = lines[rows[-1] + 1 :] if rows else lines
    return [_comment(line.decode(encoding, "replace")) for line in last if line.strip()]


def _tail(file: BinaryIO, size: int, length: int) -> list[bytes]:
    """The complete lines in the last bytes of a file."""
    file.seek(size - length)
    lines = file.read(length).splitlines()
    return lines[1:] if length < size else lines
