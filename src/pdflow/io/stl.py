"""STL: a soup of triangles, binary or text.

STL has no shared vertices. The reader merges corners that are exactly equal, so that a closed mesh
stays closed. The writer makes binary STL, which holds float32, and warns if rounding shows.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.io.losses import single_precision_losses, warn_of_losses
from pdflow.io.polygons import damaged, without_underscores
from pdflow.mesh import TriangleMesh

HEADER_BYTES = 80
FACET = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
TEXT_HEAD = re.compile(rb"\s*(solid)\b[^\n]*\n")
COORDINATE, IGNORED = b"#", b"-"
TEXT_FACET = (
    b"facet normal - - - outer loop vertex # # # vertex # # # vertex # # # endloop endfacet"
).split()
"""The words of one facet, with marks for coordinates and for the normal, which is ignored."""


def read_mesh(path: Path) -> TriangleMesh:
    """Read the triangles of an STL file and merge equal corners."""
    data = path.read_bytes()
    start = HEADER_BYTES + 4
    n_facets = int.from_bytes(data[HEADER_BYTES:start], "little")
    # Binary files may start with "solid" as well, so their exact size decides first.
    if len(data) >= start and len(data) == start + n_facets * FACET.itemsize:
        corners = np.frombuffer(data, FACET, offset=start)["corners"].astype(np.float64)
    elif data.lstrip()[:5].lower() == b"solid":
        corners = _read_text(path, data)
    else:
        raise PdflowError(
            f"{path} is neither text STL nor binary STL of {n_facets} facets "
            f"({start + n_facets * FACET.itemsize} bytes; it has {len(data)}): "
            "it is damaged, fetch or export it again."
        )
    return _merge(corners)


def write_mesh(path: Path, mesh: TriangleMesh) -> None:
    """Write a mesh as binary STL with facet normals."""
    with np.errstate(over="ignore"):
        corners = mesh.triangles.astype(np.float32)
    if not np.isfinite(corners).all():
        raise PdflowError("A coordinate exceeds the float32 of STL: write OFF, OBJ or PLY.")
    a, b, c = corners.transpose(1, 0, 2).astype(np.float64)
    normals = np.cross(b - a, c - a)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    facets = np.zeros(len(corners), FACET)
    facets["normal"] = np.divide(normals, length, out=np.zeros_like(normals), where=length > 0)
    facets["corners"] = corners
    with path.open("wb") as file:
        file.write(b"binary STL".ljust(HEADER_BYTES))
        file.write(len(facets).to_bytes(4, "little"))
        facets.tofile(file)
    warn_of_losses("STL", single_precision_losses(mesh.vertices))


def _read_text(path: Path, data: bytes) -> NDArray[np.float64]:
    """(F, 3, 3) corners of all solids in text STL."""
    text = data.lower()
    solids = []
    place = 0
    while head := TEXT_HEAD.match(text, place):
        end = text.find(b"endsolid", head.end())
        if end < 0:
            raise PdflowError(
                f"{path}: the solid at line {_line(text, head.start(1))} has no endsolid: "
                "the file is truncated, fetch or export it again."
            )
        body = text[head.end() : end]
        try:
            solids.append(_parse_facets(body.split()))
        except ValueError:
            number = _line(text, head.end()) + _first_bad_line(body)
            raise damaged(path, number, "part of a facet of three vertices") from None
        line_end = text.find(b"\n", end)
        place = line_end if line_end >= 0 else len(text)
    if text[place:].strip() or not solids:
        raise damaged(path, _line(text, place), "the start of a solid")
    return np.concatenate(solids)


def _parse_facets(words: list[bytes]) -> NDArray[np.float64]:
    """(F, 3, 3) corners from the words of all facets; ValueError if a word is wrong."""
    n_facets, rest = divmod(len(words), len(TEXT_FACET))
    if rest:
        raise ValueError
    corners = np.empty((9, n_facets))
    row = 0
    for i, expected in enumerate(TEXT_FACET):
        column = words[i :: len(TEXT_FACET)]
        if expected == COORDINATE:
            corners[row] = list(map(float, without_underscores(column)))
            row += 1
        elif expected != IGNORED and column.count(expected) < n_facets:
            raise ValueError
    return np.ascontiguousarray(corners.T).reshape(-1, 3, 3)


def _first_bad_line(body: bytes) -> int:
    """The number of lines before the first wrong word."""
    place = 0
    lines = body.split(b"\n")
    for number, line in enumerate(lines):
        for word in line.split():
            expected = TEXT_FACET[place % len(TEXT_FACET)]
            if expected == COORDINATE:
                try:
                    float(without_underscores([word])[0])
                except ValueError:
                    return number
            elif expected not in (IGNORED, word):
                return number
            place += 1
    return len(lines) - 1


def _line(text: bytes, place: int) -> int:
    return text.count(b"\n", 0, place) + 1


def _merge(corners: NDArray[np.float64]) -> TriangleMesh:
    """A mesh from (F, 3, 3) corners, with one vertex for all equal corners.

    Vertices are numbered in order of appearance.
    """
    rows = corners.reshape(-1, 3) + 0.0  # turns -0.0 into 0.0
    label = np.zeros(len(rows), np.int64)
    for column in rows.T:  # two columns fit one int64 label, which avoids sorting rows
        ranks = np.unique(column, return_inverse=True)[1]
        label = np.unique(label * (len(rows) + 1) + ranks, return_inverse=True)[1]
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return TriangleMesh(rows[first[order]], number[inverse].reshape(-1, 3))
