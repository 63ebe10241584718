"""Wavefront OBJ: vertices (`v`) and polygons (`f`) in any order; other records are skipped.

Corners may have texture and normal indices (`1/2/3`) and may count backwards (`-1` is the last
vertex so far). Polygons become fans of triangles.
"""

from __future__ import annotations

from pathlib import Path

from pdflow.errors import PdflowError
from pdflow.io.polygons import (
    Polygons,
    damaged,
    numbered_words,
    parse_vertex,
    without_underscores,
)
from pdflow.mesh import TriangleMesh


def read_mesh(path: Path) -> TriangleMesh:
    """Read the triangles of all groups and objects of an OBJ file as one mesh."""
    vertices: list[tuple[float, float, float]] = []
    polygons = Polygons()
    pending: list[bytes] = []
    for number, words in numbered_words(path):
        if pending:
            words = pending + words
        if words[-1] == b"\\":  # the record continues on the next line
            pending = words[:-1]
            continue
        pending = []
        if not words:
            continue
        if words[0] == b"v":
            vertices.append(parse_vertex(path, number, words[1:4]))
        elif words[0] == b"f":
            try:
                corners = [int(w.partition(b"/")[0]) for w in without_underscores(words[1:])]
            except ValueError:
                raise damaged(path, number, "a face") from None
            if len(corners) < 3 or 0 in corners:
                raise damaged(path, number, "a face of three or more vertices counted from 1")
            n_so_far = len(vertices)
            polygons.add([c - 1 if c > 0 else n_so_far + c for c in corners], number)
    if not vertices:
        raise PdflowError(
            f"{path} has no vertices (lines that start with v): it is not an OBJ mesh."
        )
    return polygons.mesh(path, vertices)


def write_mesh(path: Path, mesh: TriangleMesh) -> None:
    """Write a mesh as OBJ; the text keeps every bit of the coordinates."""
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(f"v {x!r} {y!r} {z!r}\n" for x, y, z in mesh.vertices.tolist())
        file.writelines(f"f {a} {b} {c}\n" for a, b, c in (mesh.faces + 1).tolist())
