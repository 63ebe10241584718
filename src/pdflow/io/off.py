"""OFF: a text file with vertices, then polygons over them.

The reader also takes the variants with colours, normals or texture coordinates (COFF, NOFF,
STOFF) and keeps positions and polygons only; polygons become fans of triangles. The writer gives
coordinates enough digits to restore the same float64.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pdflow.errors import PdflowError
from pdflow.io.polygons import (
    Line,
    Polygons,
    damaged,
    numbered_words,
    parse_vertex,
    without_underscores,
)
from pdflow.mesh import TriangleMesh

KEYWORD = re.compile(rb"(?:ST)?C?N?OFF(\d*)", re.IGNORECASE)


def read_mesh(path: Path) -> TriangleMesh:
    """Read the triangles of an OFF file."""
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
            n_corners = int(without_underscores(words[:1])[0])
            corners = [int(w) for w in without_underscores(words[1 : n_corners + 1])]
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
    """Write a mesh as plain OFF; the text keeps every bit of the coordinates."""
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.write(f"OFF\n{len(mesh.vertices)} {len(mesh.faces)} 0\n")
        file.writelines(f"{x!r} {y!r} {z!r}\n" for x, y, z in mesh.vertices.tolist())
        file.writelines(f"3 {a} {b} {c}\n" for a, b, c in mesh.faces.tolist())


def _read_counts(path: Path, lines: Iterator[Line]) -> tuple[int, int]:
    """Numbers of vertices and faces in the header: one line, two lines or even `OFF8 6 0`."""
    number, words = next(lines, (1, [b""]))
    keyword = KEYWORD.fullmatch(words[0])
    if keyword is None:
        raise PdflowError(f"{path}: line {number} does not start with OFF: it is not an OFF file.")
    if words[1:2] == [b"BINARY"]:
        raise PdflowError(f"{path} is binary OFF, which pdflow cannot read: export it as text.")
    counts = ([keyword[1]] if keyword[1] else []) + words[1:]
    if not counts:
        number, counts = next(lines, (number + 1, []))
    try:
        n_vertices, n_faces = map(int, without_underscores(counts[:2]))
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
