"""PLY: ASCII and both binary byte orders, any property, other elements kept.

`metadata["ply"]` keeps what only PLY knows, and the writer uses it again: the `format`, the type of
the `coordinates`, `obj_info` lines, the other `elements` (faces, edges, ...), the type of the
lengths of `lists` that all have one length (they are attributes (M, W)), and `ragged` lists of the
vertices. All other metadata goes into comments.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.damage import name_file
from pdflow.io.ply.binary import encode_binary
from pdflow.io.ply.header import Element, PlyHeader, Property
from pdflow.io.ply.reader import PlyReader
from pdflow.io.ply.writer import PlyWriter
from pdflow.io.polygons import fans
from pdflow.io.stream import CHUNK, Header
from pdflow.mesh import TriangleMesh


def open_reader(path: Path) -> PlyReader:
    """Open a PLY file: header and other elements are read now, vertices later in chunks."""
    return PlyReader(path)


def open_writer(path: Path, header: Header) -> PlyWriter:
    """Write a PLY file in chunks; the number of points may be unknown."""
    return PlyWriter(path, header)


def write(path: Path, cloud: PointCloud) -> None:
    """Write a whole cloud, each attribute in the narrowest type that holds its values."""
    writer = PlyWriter(path, Header.of(cloud), cloud)
    writer.write_all(cloud[start : start + CHUNK] for start in range(0, len(cloud), CHUNK))


def read_mesh(path: Path) -> TriangleMesh:
    """Read the triangle mesh in a PLY file; faces of more than three corners become fans."""
    with PlyReader(path) as reader:
        faces = reader.header.metadata["ply"].get("elements", {}).get("face", {})
        vertices = [chunk.points for chunk in reader.chunks()]
    corners = next(
        (
            values
            for name, values in faces.get("properties", {}).items()
            if name in ("vertex_indices", "vertex_index") and isinstance(values, dict)
        ),
        None,
    )
    triangles = np.empty((0, 3)) if corners is None else fans(corners["counts"], corners["values"])
    if not len(triangles):
        raise PdflowError(f"{path} holds no faces: it is a cloud, not a mesh.")
    with name_file(path):
        return TriangleMesh(np.concatenate(vertices) if vertices else np.empty((0, 3)), triangles)


def write_mesh(path: Path, mesh: TriangleMesh) -> None:
    """Write a triangle mesh as binary PLY, with float32 coordinates if these are exact."""
    header = Header.of(PointCloud(mesh.vertices))
    xyz = tuple(Property(name, header.point_dtype) for name in ("x", "y", "z"))
    index = Property("vertex_indices", np.dtype(np.int32), np.dtype(np.uint8))
    vertex = Element("vertex", len(mesh.vertices), xyz)
    face = Element("face", len(mesh.faces), (index,))
    lists = {
        "counts": np.full(len(mesh.faces), 3, np.uint8),
        "values": mesh.faces.reshape(-1).astype(np.int32),
    }
    with path.open("wb") as file:
        file.write(PlyHeader("binary_little_endian", [vertex, face]).render())
        file.write(encode_binary(vertex, dict(zip("xyz", mesh.vertices.T, strict=True)), "<").data)
        file.write(encode_binary(face, {"vertex_indices": lists}, "<").data)
