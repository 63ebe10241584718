"""Scan: clean points of a surface with all that a scanner knows about each of them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.frame import unit_sphere
from pdflow.mesh import TriangleMesh
from pdflow.scenes.fields import unit
from pdflow.scenes.surface import LOOSE_CLASSES, Surface, face_normals


@dataclass(frozen=True)
class Scan:
    """Points as a scanner without errors would have measured them.

    points   (M, 3) on the mesh
    rays     (M, 3) unit vectors from the scanner to the point
    ranges   (M,) distance from the scanner
    cosines  (M,) of the angle between ray and surface normal, from 0 to 1
    pixels   (M, 2) column and row in the scanner's grid, or place along a line and number of
             the line; NaN where there is no grid
    scans    (M,) number of the scan (station or pass) that a point belongs to
    normals  (M, 3) of the face that a point lies on, with the sign that the face has
    classes  (M,) of that face
    mesh     the surface, to measure distances to
    """

    points: FloatArray
    rays: FloatArray
    ranges: FloatArray
    cosines: FloatArray
    pixels: FloatArray
    scans: IntArray
    normals: FloatArray
    classes: IntArray
    mesh: TriangleMesh

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, rows: IntArray) -> Scan:
        """The scan of some of its points only."""
        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "mesh"}
        return Scan(**{name: value[rows] for name, value in columns.items()}, mesh=self.mesh)

    @property
    def loose(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(M,): points that lie on no surface that a scan resolves, like leaves."""
        return np.isin(self.classes, LOOSE_CLASSES)

    @cached_property
    def radius(self) -> float:
        """Radius of the bounding sphere of the points, which noise levels are relative to."""
        return unit_sphere(self.points).scale

    @cached_property
    def spacing(self) -> float:
        """Median distance from a point to the nearest other one."""
        from pdflow.geometry.neighbors import knn

        return float(np.sqrt(np.median(knn(self.points, self.points, 2)[0][:, 1])))


def scan_of(
    surface: Surface,
    points: FloatArray,
    faces: IntArray,
    origins: FloatArray,
    scans: IntArray,
    pixels: FloatArray | None = None,
) -> Scan:
    """The scan of points (M, 3) on faces (M,), seen from origins (M, 3)."""
    offsets = points - origins
    rays, normals = unit(offsets), face_normals(surface.mesh)[faces]
    return Scan(
        points,
        rays,
        np.linalg.norm(offsets, axis=1),
        np.abs((rays * normals).sum(1)),
        np.full((len(points), 2), np.nan) if pixels is None else pixels,
        scans,
        normals,
        surface.classes[faces],
        surface.mesh,
    )


def depth_jumps(scan: Scan) -> FloatArray:
    """(M,): range of a neighbouring pixel less the own one, where a depth edge lies between.

    0 where there is none, and in scans without a grid. Of several neighbours across an edge the
    one with the smallest jump counts. An edge is where ranges differ more than three times what
    the slopes of both surfaces explain.
    """
    jumps = np.full(len(scan), np.inf)
    if not len(scan) or np.isnan(scan.pixels).any():
        return np.zeros(len(scan))
    columns, rows = np.rint(scan.pixels - scan.pixels.min(axis=0)).astype(np.int64).T
    wide, high = columns.max() + 2, rows.max() + 2
    keys = (scan.scans * high + rows) * wide + columns
    order = np.argsort(keys, kind="stable")
    slopes = np.sqrt(1 - np.minimum(scan.cosines, 1) ** 2) / np.maximum(scan.cosines, 0.05)
    for step in (1, wide):
        places = np.searchsorted(keys[order], keys + step)
        other = order[np.minimum(places, len(order) - 1)]
        mine = np.flatnonzero(keys[other] == keys + step)
        other = other[mine]
        offsets = scan.points[other] - scan.points[mine]
        along = (offsets * scan.rays[mine]).sum(1)
        across = np.sqrt(np.maximum((offsets**2).sum(1) - along**2, 0))
        pitch = float(np.median(across)) if len(across) else 0.0
        difference = scan.ranges[other] - scan.ranges[mine]
        edge = np.abs(difference) > 3 * pitch * (1 + slopes[mine] + slopes[other])
        for rows_here, jump in ((mine[edge], difference[edge]), (other[edge], -difference[edge])):
            smaller = np.abs(jump) < np.abs(jumps[rows_here])
            jumps[rows_here[smaller]] = jump[smaller]
    return np.where(np.isfinite(jumps), jumps, 0.0)
