"""Exact distances between points and triangles, both ways, and rays onto a mesh. All float64.

A face may be degenerate: if its corners lie on a line, it is that segment; if they coincide, it is
that point. Everything is computed relative to the query, so large coordinates (UTM) lose no more
precision than their own rounding.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdflow.compiled import compiled, inlined
from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, IntArray, finite_points
from pdflow.geometry.triangles.bvh import STACK, BoxTree, build_tree, nearest_item
from pdflow.mesh import TriangleMesh
from pdflow.parallel import run_in_threads

Flags: TypeAlias = NDArray[np.bool_]

Faces: TypeAlias = tuple[FloatArray, Flags]
"""Corners (F, 3, 3) of faces, and whether each counts as its edges (F,)."""

PointToFaces: TypeAlias = tuple[float, float, float, Faces, FloatArray]
"""A point x, y, z, the faces to search, and room (3,) for the closest point on them."""

FaceToPoints: TypeAlias = tuple[int, Faces, FloatArray]
"""One of the faces, all of them, and the points (M, 3) to search."""

Ray: TypeAlias = tuple[FloatArray, FloatArray, int, FloatArray]
"""Origin (3,), direction (3,), its largest axis, and corners (F, 3, 3) of the faces to search."""

_SLIVER = 1e-8
"""Below this squared sine of the angle at a corner, a projection onto the plane is inaccurate."""


def closest_on_mesh(
    points: ArrayLike, mesh: TriangleMesh, *, edges_only: ArrayLike | None = None
) -> tuple[FloatArray, IntArray, FloatArray]:
    """The point on a mesh that is closest to each of `points`.

    points      (M, 3)
    edges_only  (F,) bool: faces that count as their three edges, without an inside

    Returns squared distances (M,), faces (M,) and closest points (M, 3).

    >>> mesh = TriangleMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> sq_distances, faces, closest = closest_on_mesh([[0.25, 0.25, 2.0]], mesh)
    >>> sq_distances.tolist(), faces.tolist(), closest.tolist()
    ([4.0], [0], [[0.25, 0.25, 0.0]])
    """
    queries = finite_points(points, "Points")
    corners, wires = _faces_of(mesh, edges_only)
    tree = build_tree(corners.min(1), corners.max(1))
    sq_distances = np.empty(len(queries))
    faces = np.empty(len(queries), np.int64)
    closest = np.empty((len(queries), 3))
    run_in_threads(
        _closest_faces, len(queries), queries, corners, wires, tree, sq_distances, faces,
        closest,
    )  # fmt: skip
    return sq_distances, faces, closest


def faces_to_points(
    mesh: TriangleMesh, points: ArrayLike, *, edges_only: ArrayLike | None = None
) -> FloatArray:
    """For every face, the squared distance (F,) to the point that is nearest to it.

    points      (M, 3), at least one
    edges_only  (F,) bool: faces that count as their three edges, without an inside

    >>> mesh = TriangleMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> faces_to_points(mesh, [[0.25, 0.25, 2.0], [9.0, 9.0, 9.0]]).tolist()
    [4.0]
    """
    targets = finite_points(points, "Points")
    if not len(targets):
        raise PdflowError("There are no points to measure the faces against: give at least one.")
    corners, wires = _faces_of(mesh, edges_only)
    tree = build_tree(targets, targets)
    sq_distances = np.empty(len(corners))
    run_in_threads(_closest_points, len(corners), corners, wires, targets, tree, sq_distances)
    return sq_distances


def cast_rays(
    origins: ArrayLike, directions: ArrayLike, mesh: TriangleMesh
) -> tuple[FloatArray, IntArray]:
    """The first face that each ray meets, seen from either side.

    origins     (R, 3)
    directions  (R, 3), of any length but zero

    Returns distances (R,) and faces (R,): inf and -1 for a ray that meets nothing. No ray slips
    through an edge that two faces share (the test of Woop, Benthin and Wald, 2013).

    >>> mesh = TriangleMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> distances, faces = cast_rays([[0.2, 0.2, 3.0]] * 2, [[0, 0, -5.0], [0, 0, 1.0]], mesh)
    >>> distances.tolist(), faces.tolist()
    ([3.0, inf], [0, -1])
    """
    starts = finite_points(origins, "Ray origins")
    ways = finite_points(directions, "Ray directions")
    if len(starts) != len(ways):
        raise PdflowError(
            f"There are {len(starts)} ray origins but {len(ways)} directions: give one for each."
        )
    lengths = np.linalg.norm(ways, axis=1)
    if not (lengths > 0).all():
        raise PdflowError(f"Ray {int(np.argmin(lengths))} has no direction: give it a length.")
    corners, _ = _faces_of(mesh, None)
    # Boxes a little larger than the rounding of either test below, so that no hit is pruned.
    slack = 1e-14 * max(np.abs(starts).max(initial=0.0), np.abs(corners).max())
    tree = build_tree(corners.min(1) - slack, corners.max(1) + slack)
    distances = np.empty(len(starts))
    faces = np.empty(len(starts), np.int64)
    run_in_threads(
        _first_hits, len(starts), starts, ways / lengths[:, None], corners, tree, distances,
        faces,
    )  # fmt: skip
    return distances, faces


def _faces_of(mesh: TriangleMesh, edges_only: ArrayLike | None) -> tuple[FloatArray, Flags]:
    if not len(mesh.faces):
        raise PdflowError("The mesh has no faces: there is no surface to measure against.")
    corners = np.ascontiguousarray(mesh.triangles)
    if not np.isfinite(corners).all():
        face = int(np.flatnonzero(~np.isfinite(corners).all((1, 2)))[0])
        raise PdflowError(f"Face {face} has a corner that is not finite: repair the mesh first.")
    wires = np.zeros(len(corners), bool) if edges_only is None else np.asarray(edges_only, bool)
    if wires.shape != (len(corners),):
        raise PdflowError(f"edges_only has shape {wires.shape}, not one value per face.")
    return corners, wires


@compiled
def _dot(ax: float, ay: float, az: float, bx: float, by: float, bz: float) -> float:
    return ax * bx + ay * by + az * bz


@compiled
def _origin_to_segment(
    ax: float, ay: float, az: float, ux: float, uy: float, uz: float
) -> tuple[float, float, float, float]:
    """Squared distance and closest point of the segment from a to a + u, seen from the origin."""
    length = _dot(ux, uy, uz, ux, uy, uz)
    t = 0.0
    if length > 0.0:
        t = min(1.0, max(0.0, -_dot(ax, ay, az, ux, uy, uz) / length))
    x, y, z = ax + t * ux, ay + t * uy, az + t * uz
    return x * x + y * y + z * z, x, y, z


@compiled
def _point_to_triangle(
    px: float, py: float, pz: float, corners: FloatArray, face: int, wire: bool
) -> tuple[float, float, float, float]:
    """Squared distance to a triangle, and its closest point relative to the query point.

    If the foot of the perpendicular lies inside, it is the closest point; otherwise that is on an
    edge. For a sliver both are tried, because its foot is inaccurate. Every candidate lies on the
    triangle, so the smallest distance is always right.
    """
    ax, ay, az = corners[face, 0, 0] - px, corners[face, 0, 1] - py, corners[face, 0, 2] - pz
    bx, by, bz = corners[face, 1, 0] - px, corners[face, 1, 1] - py, corners[face, 1, 2] - pz
    cx, cy, cz = corners[face, 2, 0] - px, corners[face, 2, 1] - py, corners[face, 2, 2] - pz
    ux, uy, uz = bx - ax, by - ay, bz - az
    vx, vy, vz = cx - ax, cy - ay, cz - az
    best, x, y, z = np.inf, 0.0, 0.0, 0.0
    nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    area = _dot(nx, ny, nz, nx, ny, nz)
    if area > 0.0 and not wire:
        # Barycentric weights of b and c: (v x a) . n / n.n and (a x u) . n / n.n.
        beta = _dot(vy * az - vz * ay, vz * ax - vx * az, vx * ay - vy * ax, nx, ny, nz) / area
        gamma = _dot(ay * uz - az * uy, az * ux - ax * uz, ax * uy - ay * ux, nx, ny, nz) / area
        if beta >= 0.0 and gamma >= 0.0 and beta + gamma <= 1.0:
            x = ax + beta * ux + gamma * vx
            y = ay + beta * uy + gamma * vy
            z = az + beta * uz + gamma * vz
            best = x * x + y * y + z * z
            if area > _SLIVER * _dot(ux, uy, uz, ux, uy, uz) * _dot(vx, vy, vz, vx, vy, vz):
                return best, x, y, z
    sq, sx, sy, sz = _origin_to_segment(ax, ay, az, ux, uy, uz)
    if sq < best:
        best, x, y, z = sq, sx, sy, sz
    sq, sx, sy, sz = _origin_to_segment(bx, by, bz, cx - bx, cy - by, cz - bz)
    if sq < best:
        best, x, y, z = sq, sx, sy, sz
    sq, sx, sy, sz = _origin_to_segment(ax, ay, az, vx, vy, vz)
    if sq < best:
        best, x, y, z = sq, sx, sy, sz
    return best, x, y, z


@compiled
def _triangle_to_box(
    corners: FloatArray, face: int, wire: bool, boxes: FloatArray, node: int, best: float
) -> float:
    """A lower bound of the squared distance between a triangle and a box.

    It is the gap between the two boxes if that reaches `best`. Otherwise it is the distance to
    the box's centre minus half the diagonal, which is tight for triangles much larger than the box.
    """
    sq_gap = 0.0
    for k in range(3):
        a, b, c = corners[face, 0, k], corners[face, 1, k], corners[face, 2, k]
        gap = max(boxes[node, k] - max(a, b, c), min(a, b, c) - boxes[node, k + 3], 0.0)
        sq_gap += gap * gap
    if sq_gap >= best:
        return sq_gap
    x = 0.5 * (boxes[node, 0] + boxes[node, 3])
    y = 0.5 * (boxes[node, 1] + boxes[node, 4])
    z = 0.5 * (boxes[node, 2] + boxes[node, 5])
    sq, _, _, _ = _point_to_triangle(x, y, z, corners, face, wire)
    sq_radius = (boxes[node, 3] - x) ** 2 + (boxes[node, 4] - y) ** 2 + (boxes[node, 5] - z) ** 2
    gap = max(0.0, np.sqrt(sq) - np.sqrt(sq_radius))
    bound: float = max(sq_gap, gap * gap)
    return bound


@inlined
def _point_to_box(query: PointToFaces, boxes: FloatArray, node: int, best: float) -> float:
    """Squared distance from a point to the box of a node."""
    px, py, pz, _, _ = query
    x: float = max(boxes[node, 0] - px, px - boxes[node, 3], 0.0)
    y: float = max(boxes[node, 1] - py, py - boxes[node, 4], 0.0)
    z: float = max(boxes[node, 2] - pz, pz - boxes[node, 5], 0.0)
    return x * x + y * y + z * z


@inlined
def _sq_to_face(query: PointToFaces, face: int, best: float) -> float:
    """Squared distance from a point to a face; its closest point is kept if it is the best."""
    px, py, pz, (corners, wires), closest = query
    sq, x, y, z = _point_to_triangle(px, py, pz, corners, face, wires[face])
    if sq < best:
        closest[0], closest[1], closest[2] = px + x, py + y, pz + z
    return sq


@compiled
def _closest_faces(
    start: int,
    stop: int,
    points: FloatArray,
    corners: FloatArray,
    wires: Flags,
    tree: BoxTree,
    sq_distances: FloatArray,
    faces: IntArray,
    closest: FloatArray,
) -> None:
    stack = (np.empty(STACK, np.int64), np.empty(STACK))
    for row in range(start, stop):
        px, py, pz = points[row]
        query = (px, py, pz, (corners, wires), closest[row])
        sq_distances[row], faces[row] = nearest_item(tree, stack, query, _point_to_box, _sq_to_face)


@inlined
def _face_to_box(query: FaceToPoints, boxes: FloatArray, node: int, best: float) -> float:
    face, (corners, wires), _ = query
    return _triangle_to_box(corners, face, wires[face], boxes, node, best)


@inlined
def _sq_to_point(query: FaceToPoints, row: int, best: float) -> float:
    face, (corners, wires), points = query
    x, y, z = points[row]
    return _point_to_triangle(x, y, z, corners, face, wires[face])[0]


@compiled
def _closest_points(
    start: int,
    stop: int,
    corners: FloatArray,
    wires: Flags,
    points: FloatArray,
    tree: BoxTree,
    sq_distances: FloatArray,
) -> None:
    stack = (np.empty(STACK, np.int64), np.empty(STACK))
    for face in range(start, stop):
        query = (face, (corners, wires), points)
        sq_distances[face], _ = nearest_item(tree, stack, query, _face_to_box, _sq_to_point)


@inlined
def _ray_to_box(query: Ray, boxes: FloatArray, node: int, reach: float) -> float:
    """Distance at which a ray enters a box; inf where it does not before `reach`."""
    origin, way, _, _ = query
    enter, leave = 0.0, reach
    for k in range(3):
        if way[k] == 0.0:
            if origin[k] < boxes[node, k] or origin[k] > boxes[node, k + 3]:
                return np.inf
            continue
        a = (boxes[node, k] - origin[k]) / way[k]
        b = (boxes[node, k + 3] - origin[k]) / way[k]
        enter, leave = max(enter, min(a, b)), min(leave, max(a, b))
    return enter if enter <= leave else np.inf


@inlined
def _ray_to_face(query: Ray, face: int, best: float) -> float:
    """Distance at which a ray meets a face; inf where it does not.

    In shear space the ray runs along its largest axis z, and the corners are seen from it.
    """
    origin, way, z, corners = query
    x, y = (z + 1) % 3, (z + 2) % 3
    shear_x, shear_y, scale = way[x] / way[z], way[y] / way[z], 1.0 / way[z]
    a, b, c = corners[face]
    az, bz, cz = a[z] - origin[z], b[z] - origin[z], c[z] - origin[z]
    ax, ay = a[x] - origin[x] - shear_x * az, a[y] - origin[y] - shear_y * az
    bx, by = b[x] - origin[x] - shear_x * bz, b[y] - origin[y] - shear_y * bz
    cx, cy = c[x] - origin[x] - shear_x * cz, c[y] - origin[y] - shear_y * cz
    # Two faces compute the same number for a shared edge, up to its sign.
    u, v, w = cx * by - cy * bx, ax * cy - ay * cx, bx * ay - by * ax
    if (u < 0 or v < 0 or w < 0) and (u > 0 or v > 0 or w > 0):
        return np.inf
    area = u + v + w
    if area == 0.0:
        return np.inf
    t: float = (u * az + v * bz + w * cz) * scale / area
    return t if t >= 0.0 else np.inf


@compiled
def _first_hits(
    start: int,
    stop: int,
    origins: FloatArray,
    ways: FloatArray,
    corners: FloatArray,
    tree: BoxTree,
    distances: FloatArray,
    faces: IntArray,
) -> None:
    stack = (np.empty(STACK, np.int64), np.empty(STACK))
    for row in range(start, stop):
        query = (origins[row], ways[row], int(np.argmax(np.abs(ways[row]))), corners)
        distances[row], faces[row] = nearest_item(tree, stack, query, _ray_to_box, _ray_to_face)
