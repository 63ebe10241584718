"""Polygons of mesh files as triangles, and the text lines that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.mesh import TriangleMesh

Line = tuple[int, list[bytes]]
"""Line number in the file, counted from 1, and the words on that line."""


def fans(sizes: NDArray[np.integer], corners: NDArray[np.integer]) -> NDArray[np.int64]:
    """(F, 3): each polygon as the fan of triangles at its first corner.

    sizes    (polygons,) number of corners of each polygon; fewer than three give no triangle
    corners  (sum of sizes,) vertices of the first polygon, then of the second, ...

    >>> fans(np.array([3, 4]), np.array([0, 1, 2, 0, 1, 2, 3])).tolist()
    [[0, 1, 2], [0, 1, 2], [0, 2, 3]]
    """
    sizes = sizes.astype(np.int64)
    triangles = np.maximum(sizes - 2, 0)
    first = np.repeat(np.cumsum(sizes) - sizes, triangles)
    step = np.arange(len(first)) - np.repeat(np.cumsum(triangles) - triangles, triangles)
    places = np.stack([first, first + step + 1, first + step + 2], axis=1)
    return np.asarray(corners[places], np.int64)


def numbered_words(path: Path) -> Iterator[Line]:
    """The words of each line of a text file, without comments (`#`) and blank lines."""
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        words = (line.partition(b"#")[0] if b"#" in line else line).split()
        if words:
            yield number, words


def parse_vertex(path: Path, number: int, words: Sequence[bytes]) -> tuple[float, float, float]:
    """Three words as coordinates; an error names the line."""
    try:
        x, y, z = map(float, without_underscores(words))
    except ValueError:
        raise damaged(path, number, "a vertex of three numbers") from None
    return x, y, z


def without_underscores(words: Sequence[bytes]) -> Sequence[bytes]:
    """The words; ValueError if one has an underscore, which Python takes for part of a number."""
    if b"_" in b"".join(words):
        raise ValueError
    return words


class Polygons:
    """Polygons of any size, collected line by line, then cut into triangles."""

    def __init__(self) -> None:
        self._corners: list[int] = []
        self._sizes: list[int] = []
        self._lines: list[int] = []

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, corners: list[int], number: int) -> None:
        """Append a polygon by its vertex rows, with its line in the file."""
        self._corners.extend(corners)
        self._sizes.append(len(corners))
        self._lines.append(number)

    def mesh(self, path: Path, vertices: list[tuple[float, float, float]]) -> TriangleMesh:
        """The triangles of all polygons; an error names the line of a corner without a vertex."""
        sizes = np.array(self._sizes, dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        try:
            corners = np.array(self._corners, dtype=np.int64)
        except OverflowError:  # too large for int64, so not a vertex either
            corners = np.array([c if abs(c) < 2**63 else -1 for c in self._corners], np.int64)
        outside = np.flatnonzero((corners < 0) | (corners >= len(vertices)))
        if len(outside):
            line = self._lines[int(np.searchsorted(starts, outside[0], side="right")) - 1]
            raise PdflowError(
                f"{path}: line {line} has a face with a corner that is none of the "
                f"{len(vertices)} vertices: repair the file or export it again."
            )
        return TriangleMesh(vertices, fans(sizes, corners))


def damaged(path: Path, number: int, what: str) -> PdflowError:
    """The error for a line that is not `what`."""
    return PdflowError(f"{path}: line {number} is not {what}: repair the file or export it again.")
