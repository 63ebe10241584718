"""OFF: a text file of vertices, then of polygons over them.

Read are OFF and its variants with colours, normals or texture coordinates (COFF, NOFF, STOFF),
of which only positions and polygons are kept; polygons become fans of triangles. Coordinates
are written with as many digits as bring back the same float64.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pdflow.errors import PdflowError
from pdflow.mesh import TriangleMesh

Line = tuple[int, list[bytes]]
"""Line number in the file, counted from 1, and the words on that line."""

KEYWORD = re.compile(rb"(?:ST)?C?N?OFF(\d*)", re.IGNORECASE)


def read_mesh(path: Path) -> TriangleMesh:
    """The triangles of an OFF file."""
    lines = numbered_words(path)
    n_vertices, n_faces = _read_counts(path, lines)

    vertices = []
    for _, (number, words) in zip(range(n_vertices), lines, strict=False):
        vertices.append(parse_vertex(path, number, words[:3]))
    if len(vertices) < n_vertices:
        raise _ends_early(path, f"{n_vertices} vertices", len(vertices))

    polygons = Polygons()
    for _, (number, words) in zip(range(n_faces), lines, strict=False):
        try:
            n_corners = int(words[0])
            corners = [int(word) for word in words[1 : n_corners + 1]]
        except ValueError:
            raise damaged(path, number, "a face") from None
        if len(corners) != n_corners:
            raise damaged(path, number, f"a face of {n_corners} corners")
        polygons.add(corners, number)
    if len(polygons) < n_faces:
        raise _ends_early(path, f"{n_faces} faces", len(polygons))

    extra = next(lines, None)
    if extra is not None:
        raise PdflowError(
            f"{path}: line {extra[0]} comes after the {n_vertices} vertices and {n_faces} faces "
            "that the header promises: correct the counts in the header."
        )
    return polygons.mesh(path, vertices)


def write_mesh(path: Path, mesh: TriangleMesh) -> None:
    """Write a mesh as plain OFF; the text holds every bit of the coordinates."""
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.write(f"OFF\n{len(mesh.vertices)} {len(mesh.faces)} 0\n")
        file.writelines(f"{x!r} {y!r} {z!r}\n" for x, y, z in mesh.vertices.tolist())
        file.writelines(f"3 {a} {b} {c}\n" for a, b, c in mesh.faces.tolist())


def numbered_words(path: Path) -> Iterator[Line]:
    """Lines of a text file as words, without comments (`#`) and blank lines."""
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        words = (line.partition(b"#")[0] if b"#" in line else line).split()
        if words:
            yield number, words


def parse_vertex(path: Path, number: int, words: Sequence[bytes]) -> tuple[float, float, float]:
    """Three words as coordinates, or an error that names the line."""
    try:
        x, y, z = map(float, words)
    except ValueError:
        raise damaged(path, number, "a vertex of three numbers") from None
    return x, y, z


class Polygons:
    """Polygons of any number of corners, collected line by line, then cut into triangles."""

    def __init__(self) -> None:
        self._corners: list[int] = []
        self._sizes: list[int] = []
        self._lines: list[int] = []

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, corners: list[int], number: int) -> None:
        """Append a polygon by its vertex rows, with the line of the file that it is from."""
        self._corners.extend(corners)
        self._sizes.append(len(corners))
        self._lines.append(number)

    def mesh(self, path: Path, vertices: list[tuple[float, float, float]]) -> TriangleMesh:
        """Each polygon as the fan of triangles at its first corner.

        Polygons of one or two corners have no area and give no triangle. A corner that is no
        vertex is an error that names its line.
        """
        sizes = np.array(self._sizes, dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        try:
            corners = np.array(self._corners, dtype=np.int64)
        except OverflowError:  # as good as any number that is no row
            corners = np.array([c if abs(c) < 2**63 else -1 for c in self._corners], np.int64)
        outside = np.flatnonzero((corners < 0) | (corners >= len(vertices)))
        if len(outside):
            line = self._lines[int(np.searchsorted(starts, outside[0], side="right")) - 1]
            raise PdflowError(
                f"{path}: line {line} has a face whose corner is none of the {len(vertices)} "
                "vertices: repair the file or export it again."
            )
        fan_sizes = np.maximum(sizes - 2, 0)
        first = np.repeat(starts, fan_sizes)
        step = np.arange(len(first)) - np.repeat(np.cumsum(fan_sizes) - fan_sizes, fan_sizes)
        fans = np.stack([first, first + step + 1, first + step + 2], axis=1)
        return TriangleMesh(vertices, corners[fans])


def damaged(path: Path, number: int, what: str) -> PdflowError:
    """The error for a line that is not what it must be."""
    return PdflowError(f"{path}: line {number} is not {what}: repair the file or export it again.")


def _read_counts(path: Path, lines: Iterator[Line]) -> tuple[int, int]:
    """Vertices and faces that the header promises; it is one line or two, or even `OFF8 6 0`."""
    number, words = next(lines, (1, [b""]))
    keyword = KEYWORD.fullmatch(words[0])
    if keyword is None:
        raise PdflowError(f"{path}: line {number} does not start with OFF: this is no OFF file.")
    if words[1:2] == [b"BINARY"]:
        raise PdflowError(f"{path} is binary OFF, which cannot be read: export it as text.")
    counts = ([keyword[1]] if keyword[1] else []) + words[1:]
    if not counts:
        number, counts = next(lines, (number + 1, []))
    try:
        n_vertices, n_faces = map(int, counts[:2])
        if min(n_vertices, n_faces) < 0:
            raise ValueError
    except ValueError:
        raise damaged(path, number, "a count of vertices and faces") from None
    return n_vertices, n_faces


def _ends_early(path: Path, promised: str, found: int) -> PdflowError:
    return PdflowError(
        f"{path}: the header promises {promised} but the file ends after {found}: "
        "it is truncated, fetch or export it again."
    )
