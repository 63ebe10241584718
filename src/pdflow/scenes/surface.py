"""Surface: a mesh with classes, and the pieces that surfaces are put together from.

Objects have a size of about 2 (radius 1). Places (terrain, rooms) are in metres with z up, and
say where a scanner may stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.mesh import TriangleMesh
from pdflow.scenes.fields import frame_of, unit

OBJECT, GROUND, TREE, BUILDING, NOISE, WIRE, POLE = 1, 2, 5, 6, 7, 14, 15
"""Classes, with the codes of LAS: unclassified, ground, high vegetation, building, low noise,
conductor, tower."""

LOOSE_CLASSES = (TREE, WIRE)
"""Classes whose points lie on no surface that a scan resolves: leaves and wires."""


@dataclass(frozen=True)
class Surface:
    """A mesh to scan.

    mesh      the surface
    classes   (F,) class of every face
    stations  (Q, 3) where a scanner may stand; without any it stands around the object
    """

    mesh: TriangleMesh
    classes: IntArray
    stations: FloatArray = field(default_factory=lambda: np.empty((0, 3)))


def joined(
    parts: Sequence[tuple[TriangleMesh, int]], stations: FloatArray | None = None
) -> Surface:
    """One surface of several meshes, each with its class."""
    firsts = np.cumsum([0, *(len(mesh.vertices) for mesh, _ in parts[:-1])])
    mesh = TriangleMesh(
        np.concatenate([mesh.vertices for mesh, _ in parts]),
        np.concatenate(
            [mesh.faces + first for (mesh, _), first in zip(parts, firsts, strict=True)]
        ),
    )
    classes = np.repeat([number for _, number in parts], [len(mesh.faces) for mesh, _ in parts])
    return Surface(mesh, classes, np.empty((0, 3)) if stations is None else stations)


def an_object(*meshes: TriangleMesh) -> Surface:
    """A surface of meshes without a class."""
    return joined([(mesh, OBJECT) for mesh in meshes])


def grid_mesh(
    points: FloatArray, *, closed_rows: bool = False, closed_columns: bool = False
) -> TriangleMesh:
    """A mesh through a grid of points (rows, columns, 3).

    closed_rows, closed_columns  whether the last row (column) is followed by the first again
    """
    rows, columns = points.shape[:2]
    number = np.arange(rows * columns).reshape(rows, columns)
    if closed_rows:
        number = np.concatenate([number, number[:1]])
    if closed_columns:
        number = np.concatenate([number, number[:, :1]], axis=1)
    a, b, c, d = (part.ravel() for part in (number[:-1, :-1], number[1:, :-1],
                                            number[1:, 1:], number[:-1, 1:]))  # fmt: skip
    faces = np.concatenate([np.column_stack([a, b, c]), np.column_stack([a, c, d])])
    return TriangleMesh(points, faces)


def sheet(x: FloatArray, y: FloatArray, z: FloatArray) -> TriangleMesh:
    """The graph z (rows, columns) over a grid x, y of the same shape."""
    return grid_mesh(np.stack([x, y, z], axis=-1))


def plane_grid(half_x: float, half_y: float, step: float) -> tuple[FloatArray, FloatArray]:
    """Coordinates x and y of a grid over [-half_x, half_x] x [-half_y, half_y]."""
    rows, columns = (max(2, round(2 * half / step) + 1) for half in (half_x, half_y))
    x, y = np.meshgrid(
        np.linspace(-half_x, half_x, rows), np.linspace(-half_y, half_y, columns), indexing="ij"
    )
    return x, y


def rectangle(corner: FloatArray, side: FloatArray, other: FloatArray) -> TriangleMesh:
    """A flat piece between `corner` (3,) and the two sides (3,) that start there."""
    return TriangleMesh([corner, corner + side, corner + side + other, corner + other],
                        [[0, 1, 2], [0, 2, 3]])  # fmt: skip


def turned(points: FloatArray, angle: float) -> FloatArray:
    """Points (..., 3) turned about the z axis."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.asarray(points @ np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]]))


def box(
    center: ArrayLike, size: ArrayLike, turn: float = 0.0, *, bottom: bool = True
) -> TriangleMesh:
    """A box with sides `size` (3,), turned about the z axis by an angle."""
    signs = np.array([[x, y, z] for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)])
    corners = turned(0.5 * signs * np.asarray(size), turn) + np.asarray(center)
    quads = [[4, 5, 7, 6], [0, 1, 5, 4], [1, 3, 7, 5], [3, 2, 6, 7], [2, 0, 4, 6], [0, 2, 3, 1]]
    faces = [f for a, b, c, d in quads[: 6 if bottom else 5] for f in ([a, b, c], [a, c, d])]
    return TriangleMesh(corners, faces)


def extruded(profile: FloatArray, length: float, *, closed: bool) -> TriangleMesh:
    """A line profile (n, 2) in x and z, drawn out along y over `length`; its ends are open."""
    lines = [np.insert(profile, 1, y, axis=1) for y in (-length / 2, length / 2)]
    return grid_mesh(np.stack(lines, axis=1), closed_rows=closed)


def tube(path: FloatArray, radii: FloatArray, sides: int = 12) -> TriangleMesh:
    """A tube around a path (n, 3) with a radius (n,) at each of its points, closed at both ends."""
    along = unit(np.gradient(path, axis=0))
    first = np.empty_like(path)
    first[0] = frame_of(along[0])[0]
    for i in range(1, len(path)):  # turned as little as possible from one point to the next
        first[i] = unit(first[i - 1] - (first[i - 1] @ along[i]) * along[i])
    angles = 2 * np.pi * np.arange(sides) / sides
    around = (np.cos(angles)[:, None] * first[:, None]
              + np.sin(angles)[:, None] * np.cross(along, first)[:, None])  # fmt: skip
    rings = path[:, None] + radii[:, None, None] * around
    ends = [np.broadcast_to(path[i], (1, sides, 3)) for i in (0, -1)]
    return grid_mesh(np.concatenate([ends[0], rings, ends[1]]), closed_columns=True)


def revolved(profile: FloatArray, sides: int) -> TriangleMesh:
    """A line of radii and heights (n, 2), turned about the z axis."""
    angles = 2 * np.pi * np.arange(sides) / sides
    around = np.column_stack([np.cos(angles), np.sin(angles)])
    rings = profile[:, None, :1] * around
    heights = np.broadcast_to(profile[:, None, 1:], (*rings.shape[:2], 1))
    return grid_mesh(np.concatenate([rings, heights], axis=-1), closed_columns=True)


def face_normals(mesh: TriangleMesh) -> FloatArray:
    """Unit normals (F, 3); zero for a face without area."""
    a, b, c = mesh.triangles.transpose(1, 0, 2)
    return unit(np.cross(b - a, c - a))


def vertex_normals(mesh: TriangleMesh) -> FloatArray:
    """Unit normals (V, 3): the mean of the faces around, by their areas."""
    a, b, c = mesh.triangles.transpose(1, 0, 2)
    weighted = np.cross(b - a, c - a)
    total = np.zeros_like(mesh.vertices)
    for corner in mesh.faces.T:
        for axis in range(3):
            total[:, axis] += np.bincount(corner, weighted[:, axis], len(total))
    return unit(total)


def displaced(mesh: TriangleMesh, heights: FloatArray) -> TriangleMesh:
    """The mesh with every vertex moved along its normal by heights (V,)."""
    return TriangleMesh(mesh.vertices + heights[:, None] * vertex_normals(mesh), mesh.faces)
