"""The header of a PCD file: fields, shape, viewpoint and comments; parsed and rendered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from pdflow.errors import PdflowError
from pdflow.io.comments import decode_text

KINDS = ("ascii", "binary", "binary_compressed")
DTYPES = {
    (code, size): np.dtype(f"<{code.lower()}{size}")
    for code, sizes in {"I": (1, 2, 4, 8), "U": (1, 2, 4, 8), "F": (4, 8)}.items()
    for size in sizes
}
"""TYPE and SIZE -> dtype in the file."""

FIXED_VIEWPOINT: tuple[float, ...] = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
PADDING = "_"

_FIRST_LINE = "# .PCD v0.7 - Point Cloud Data file format"
_IS_FIRST_LINE = re.compile(r"#\s*\.PCD v")
_VERSIONS = ("0.7", ".7", "0.6", ".6", "0.5", ".5")
_KEYWORDS = (
    *("VERSION", "FIELDS", "COLUMNS", "SIZE", "TYPE", "COUNT"),
    *("WIDTH", "HEIGHT", "VIEWPOINT", "POINTS", "DATA"),
)
_LONGEST_LINE = 1 << 26


@dataclass(frozen=True)
class PcdField:
    """A field of the header: `count` numbers of one type per point."""

    name: str
    dtype: np.dtype[Any]
    count: int = 1

    @property
    def n_bytes(self) -> int:
        """Bytes per point."""
        return self.dtype.itemsize * self.count


@dataclass(frozen=True)
class PcdHeader:
    """Everything before the points; `n_lines` counts its lines if it was read."""

    fields: tuple[PcdField, ...]
    width: int
    height: int
    data: str
    viewpoint: tuple[float, ...] = FIXED_VIEWPOINT
    comments: tuple[str, ...] = ()
    n_lines: int = 0

    @property
    def count(self) -> int:
        """Number of points."""
        return self.width * self.height

    @property
    def point_bytes(self) -> int:
        """Bytes per point."""
        return sum(field.n_bytes for field in self.fields)


def read_header(file: IO[bytes], path: Path) -> PcdHeader:
    """Parse the lines up to DATA and stop at the first byte of the points."""
    entries: dict[str, list[str]] = {}
    comments: list[str] = []
    n_lines = 0
    while "DATA" not in entries:
        line = file.readline(_LONGEST_LINE)
        n_lines += 1
        if not line.endswith(b"\n"):
            raise PdflowError(
                f"{path}: the PCD header ends at line {n_lines} without DATA: the file is "
                "truncated or not PCD, fetch or export it again."
            )
        text = decode_text(line).rstrip("\r\n")
        if text.startswith("#"):
            if n_lines > 1 or not _IS_FIRST_LINE.match(text):
                comments.append(text[1:].removeprefix(" "))
            continue
        keyword, *values = text.split() or [""]
        if keyword and keyword not in _KEYWORDS:
            raise PdflowError(
                f"{path}: line {n_lines} starts with {keyword[:20]!r}, not with a PCD keyword: the "
                "file is damaged or not PCD, fetch or export it again."
            )
        entries["FIELDS" if keyword == "COLUMNS" else keyword] = values  # the older spelling
    return _interpret(path, entries, tuple(comments), n_lines)


def render_header(header: PcdHeader) -> bytes:
    """The lines of the header up to DATA."""
    codes = {dtype: code for (code, _), dtype in DTYPES.items()}
    fields = header.fields
    lines = [
        _FIRST_LINE,
        *(f"# {comment}" for comment in header.comments),
        "VERSION 0.7",
        "FIELDS " + " ".join(field.name for field in fields),
        "SIZE " + " ".join(str(field.dtype.itemsize) for field in fields),
        "TYPE " + " ".join(codes[field.dtype] for field in fields),
        "COUNT " + " ".join(str(field.count) for field in fields),
        f"WIDTH {header.width}",
        f"HEIGHT {header.height}",
        "VIEWPOINT " + " ".join(repr(v).removesuffix(".0") for v in header.viewpoint),
        f"POINTS {header.count}",
        f"DATA {header.data}",
    ]
    return ("\n".join(lines) + "\n").encode()


def _interpret(
    path: Path, entries: dict[str, list[str]], comments: tuple[str, ...], n_lines: int
) -> PcdHeader:
    """The header from its entries, which are checked against each other."""

    def wrong(keyword: str, expected: str) -> PdflowError:
        found = " ".join(entries.get(keyword, ["missing"]))[:60]
        return PdflowError(
            f"{path}: {keyword} in the PCD header is {found!r} instead of {expected}: repair the "
            "header or export the file again."
        )

    def integers(keyword: str, default: Sequence[int], smallest: int) -> list[int]:
        try:
            if "_" in "".join(entries.get(keyword, ())):  # Python takes it for part of a number
                raise ValueError
            values = [int(word) for word in entries.get(keyword, default)]
        except ValueError:
            values = []
        if len(values) != len(default) or any(value < smallest for value in values):
            raise wrong(keyword, f"{len(default)} whole number(s)")
        return values

    if entries.get("VERSION", [".7"]) not in ([version] for version in _VERSIONS):
        raise wrong("VERSION", "0.5, 0.6 or 0.7")
    if entries["DATA"] not in ([kind] for kind in KINDS):
        raise wrong("DATA", "one of " + ", ".join(KINDS))
    names = entries.get("FIELDS", [])
    if not names:
        raise wrong("FIELDS", "a list of names")

    # The oldest files have fields without SIZE, TYPE and COUNT: plain floats.
    n = len(names)
    sizes, counts = integers("SIZE", [4] * n, 1), integers("COUNT", [1] * n, 1)
    codes = entries.get("TYPE", ["F"] * n)
    if len(codes) != n or not all(pair in DTYPES for pair in zip(codes, sizes, strict=True)):
        raise wrong("TYPE", f"{n} of I, U and F that match SIZE")
    dtypes = [DTYPES[pair] for pair in zip(codes, sizes, strict=True)]

    (points,) = integers("POINTS", [-1], 0) if "POINTS" in entries else (None,)
    if "WIDTH" not in entries and points is None:
        raise wrong("WIDTH", "a whole number")
    (width,) = integers("WIDTH", [0], 0) if "WIDTH" in entries else (points or 0,)
    (height,) = integers("HEIGHT", [1], 0)
    if points is not None and points != width * height:
        raise wrong("POINTS", f"WIDTH times HEIGHT, {width * height}")

    try:
        viewpoint = tuple(float(word) for word in entries.get("VIEWPOINT", FIXED_VIEWPOINT))
        if "_" in "".join(entries.get("VIEWPOINT", ())):
            raise ValueError
    except ValueError:
        viewpoint = ()
    if len(viewpoint) != len(FIXED_VIEWPOINT):
        raise wrong("VIEWPOINT", "seven numbers")
    fields = tuple(map(PcdField, names, dtypes, counts))
    return PcdHeader(fields, width, height, entries["DATA"][0], viewpoint, comments, n_lines)
