"""Distances between a cloud and a mesh, exact in float64, both ways.

Frame: the mesh's unit sphere (bounding-box centre and largest radius of its corners), also for the
cloud. Moving and scaling the pair changes nothing. Rotating it can change the scale of the frame,
because the bounding box does not rotate with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pdflow.geometry.triangles import closest_on_mesh, faces_to_points
from pdflow.mesh import TriangleMesh
from pdflow.metrics.inputs import as_points, frame_of_mesh, mesh_in
from pdflow.metrics.two_way import TwoWayDistances

PYTORCH3D_MIN_AREA = 5e-3
"""Area below which PyTorch3D ignores the inside of a triangle."""


def mesh_distances(pred: Any, mesh: TriangleMesh, *, min_area: float = 0.0) -> TwoWayDistances:
    """Measure a cloud and a mesh once, for all metrics of this family.

    pred      (M, 3)
    min_area  faces smaller than this (in the unit sphere) count as their three edges
    """
    points = as_points(pred, "The prediction")
    frame = frame_of_mesh(mesh)
    points, mesh = frame.apply(points), mesh_in(frame, mesh)
    edges_only = mesh.areas < min_area
    return TwoWayDistances(
        closest_on_mesh(points, mesh, edges_only=edges_only)[0],
        faces_to_points(mesh, points, edges_only=edges_only),
    )


def sq_point_to_mesh(pred: Any, mesh: TriangleMesh) -> float:
    """Point-to-mesh distance, the P2M of the paper's tables (Eq. 23; d is squared there).

    pred (M, 3). Frame: the mesh's unit sphere. The first term is the mean over points of the
    squared distance to the surface; renumbering or subdividing the mesh does not change it. The
    second is the mean over faces, with equal weights, of the squared distance to the nearest
    point; it depends on how the surface is cut into faces.
    """
    return mesh_distances(pred, mesh).sq_mean


def point_to_mesh(pred: Any, mesh: TriangleMesh) -> float:
    """Point-to-mesh distance with plain distances.

    pred (M, 3). Frame: the mesh's unit sphere.
    """
    return mesh_distances(pred, mesh).mean


def sq_point_to_mesh_pytorch3d(pred: Any, mesh: TriangleMesh) -> float:
    """P2M as computed by PyTorch3D 0.6.2 and later, to compare with tables made with it.

    pred (M, 3). Frame: the mesh's unit sphere.

    Since 0.6.2, `pytorch3d.loss.point_mesh_face_distance` uses a `min_triangle_area` of 5e-3: it
    treats a smaller triangle as its three edges (`IsInsideTriangle` in csrc/utils/geometry_utils).
    So the value depends on how fine the mesh is; `sq_point_to_mesh` is the exact one. Computed in
    float64, without the 1e-8 that PyTorch3D adds to denominators.
    """
    return mesh_distances(pred, mesh, min_area=PYTORCH3D_MIN_AREA).sq_mean


def surface_rms(pred: Any, mesh: TriangleMesh) -> float:
    """Root mean square of the exact distances from the points to the surface, one-sided.

    pred (M, 3). Frame: the mesh's unit sphere.
    """
    points = as_points(pred, "The prediction")
    frame = frame_of_mesh(mesh)
    return float(np.sqrt(closest_on_mesh(frame.apply(points), mesh_in(frame, mesh))[0].mean()))
