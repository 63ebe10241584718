"""Exact distances along a mesh from a point on it to nearby points on it.

They differ from distances on the true surface only as the mesh does: on icospheres of 1280, 5120
and 20480 faces, distances up to a quarter of the radius are within 0.5 %, 0.1 % and 0.03 % of those
on the sphere (straight distances: 0.3 % on the finest). They agree with libigl's exact distances to
1e-12.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.mesh import TriangleMesh
from pdflow.metrics.windows import LocatedPoints, Progress, SurfaceGraph, spread

_MORE_THAN_A_TURN = 2 * np.pi * (1 + 1e-12)


def surface_graph(mesh: TriangleMesh) -> tuple[SurfaceGraph, TriangleMesh]:
    """The graph of a mesh, and the cleaned mesh whose face numbers it uses.

    Vertices at the same place are merged, and faces that lose a corner by that are dropped.
    """
    vertices, index = np.unique(mesh.vertices, axis=0, return_inverse=True)
    faces = index.reshape(-1)[mesh.faces]
    a, b, c = faces.T
    faces = np.ascontiguousarray(faces[(a != b) & (b != c) & (c != a)])
    if not len(faces):
        raise PdflowError("The mesh has no face with three different corners: repair it first.")
    tails, heads = faces.reshape(-1), np.roll(faces, -1, axis=1).reshape(-1)
    ends = np.sort(np.stack([tails, heads], axis=1), axis=1)
    _, edge_of, uses = np.unique(ends, axis=0, return_inverse=True, return_counts=True)
    edge_of = edge_of.reshape(-1)
    graph = SurfaceGraph(
        vertices,
        faces,
        edge_of,
        *_rows_by_key(edge_of, len(uses)),
        *_rows_by_key(tails, len(vertices)),
        _bends(vertices, faces, ends[uses[edge_of] != 2]),
    )
    return graph, TriangleMesh(vertices, faces)


def locate(points: FloatArray, faces: IntArray, face_count: int) -> LocatedPoints:
    """Points (M, 3) with the face (M,) that each lies on."""
    return LocatedPoints(points, *_rows_by_key(faces, face_count))


def geodesic_distances(
    graph: SurfaceGraph, source: FloatArray, face: int, targets: LocatedPoints, reach: float
) -> FloatArray:
    """Distance (M,) along the surface from a source (3,) on a face; inf beyond `reach`."""
    distances = np.full(len(targets.points), np.inf)
    vertex_distances = np.full(len(graph.vertices), np.inf)
    progress = Progress(reach, vertex_distances, distances, np.empty(len(distances), np.int64))
    spread(graph, source.reshape(1, 3), 0, face, targets, progress)
    distances[distances > reach] = np.inf
    return distances


def _rows_by_key(keys: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """`start` (count + 1,) and `order`: the rows of key k are order[start[k] : start[k + 1]]."""
    start = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=start[1:])
    return start, np.argsort(keys, kind="stable")


def _bends(vertices: FloatArray, faces: IntArray, open_ends: IntArray) -> NDArray[np.bool_]:
    """Vertices (V,) where a shortest path may bend: more than a full turn, or at the border."""
    turn = np.zeros(len(vertices))
    for k in range(3):
        corner = vertices[faces[:, k]]
        u = vertices[faces[:, (k + 1) % 3]] - corner
        v = vertices[faces[:, (k + 2) % 3]] - corner
        angle = np.arctan2(np.linalg.norm(np.cross(u, v), axis=1), (u * v).sum(1))
        np.add.at(turn, faces[:, k], angle)
    bends = turn > _MORE_THAN_A_TURN
    bends[open_ends.reshape(-1)] = True
    return np.asarray(bends)
