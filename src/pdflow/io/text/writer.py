"""Write a text file in chunks: plain numbers if they are enough, or else names before them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdflow.cloud import PointCloud
from pdflow.io.comments import encode_comments
from pdflow.io.losses import warn_of_losses
from pdflow.io.stream import Header, Writer
from pdflow.io.tabular.columns import COLORS, NORMALS, Attributes, plan_writing, with_note
from pdflow.io.tabular.rows import format_rows
from pdflow.io.text.sniff import DIALECT

_LINE_WIDTH = 8000
_COUNT_WIDTH = 19
_ROWS_AT_ONCE = 100_000
_PLAIN_COLUMNS: dict[str, list[tuple[str, ...]]] = {
    ".xyzn": [NORMALS],
    ".xyzrgb": [COLORS],
    ".pts": [("intensity",), COLORS, ("intensity", *COLORS)],
}
"""Suffix -> columns after x, y, z that readers expect without names."""


class TextWriter(Writer):
    """A text file that is written in chunks. The suffix chooses between CSV, PTS and XYZ.

    attributes  of the whole cloud if known; then header.count is exact, too

    Names and metadata stand before the rows. In PTS, whose first line is the number of rows, they
    follow the last row, where other software no longer reads.
    """

    def __init__(self, path: Path, header: Header, attributes: Attributes | None = None) -> None:
        self._suffix = path.suffix.lower()
        self._layout = plan_writing(header.fields, DIALECT, attributes)
        lines, lost = encode_comments(with_note(header.metadata, self._layout), _LINE_WIDTH)
        self._losses = self._layout.losses + lost
        self._delimiter = "," if self._suffix == ".csv" else " "
        self._about = self._describe(lines)
        self._count = 0
        self._count_line = ""
        self._file = path.open("w", encoding="utf-8", newline="\n")
        if self._suffix == ".pts":
            self._count_line = " " * _COUNT_WIDTH if attributes is None else str(header.count)
            self._file.write(self._count_line + "\n")
        else:
            self._file.write(self._about)

    def write(self, chunk: PointCloud) -> None:
        """Append points with exactly the attributes of the header."""
        columns = [*chunk.points.T, *self._layout.split(chunk.attributes).values()]
        for start in range(0, len(chunk), _ROWS_AT_ONCE):
            rows = [column[start : start + _ROWS_AT_ONCE] for column in columns]
            self._file.write(format_rows(rows, self._delimiter))
        self._count += len(chunk)

    def finish(self) -> None:
        """Complete the file, correct the count in its first line, and close it."""
        try:
            if self._suffix == ".pts":
                self._file.write(self._about)
                self._file.seek(0)
                self._file.write(str(self._count).ljust(len(self._count_line)))
            warn_of_losses(self._suffix.lstrip(".").upper() or "Text", self._losses)
        finally:
            self._file.close()

    def abort(self) -> None:
        """Close the file without completing it."""
        self._file.close()

    def _describe(self, lines: list[str]) -> str:
        """The lines with metadata and names; none if the numbers are enough."""
        names = list(self._layout.columns)
        about = "".join(f"# {line}".rstrip() + "\n" for line in lines)
        header = self._delimiter.join(["x", "y", "z", *names]) + "\n"
        if self._suffix == ".csv":
            return about + header
        plain = not names or tuple(names) in _PLAIN_COLUMNS.get(self._suffix, [])
        if self._suffix == ".pts" and "red" in names:
            plain = plain and self._layout.columns["red"] == np.uint8
        return "" if plain and not lines else f"{about}# {header}"
