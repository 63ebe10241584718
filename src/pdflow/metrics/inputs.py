"""What the metrics accept: clouds, numpy arrays, lists, or torch tensors on any device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.geometry.frame import Frame, unit_sphere
from pdflow.mesh import TriangleMesh


def as_points(values: Any, name: str) -> NDArray[np.float64]:
    """A cloud as an (M, 3) float64 array, checked.

    values  PointCloud, (M, 3) array, nested list, or torch tensor (copied from its device)
    name    how errors call it

    >>> as_points([[0, 0, 1]], "The cloud").dtype.name
    'float64'
    """
    if isinstance(values, PointCloud):
        values = values.points
    if hasattr(values, "detach"):  # a torch tensor, recognised without importing torch
        values = values.detach().cpu().double().numpy()
    try:
        points = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise PdflowError(f"{name} is not an array of numbers: pass one row per point.") from error
    if points.ndim != 2 or points.shape[1] != 3:
        raise PdflowError(f"{name} has shape {points.shape}, not (M, 3): pass one row per point.")
    if not len(points):
        raise PdflowError(f"{name} is empty: there is nothing to measure.")
    if not np.isfinite(points).all():
        row = int(np.flatnonzero(~np.isfinite(points).all(1))[0])
        raise PdflowError(f"{name}: point {row} is NaN or infinite: drop such points first.")
    return points


def frame_of_cloud(clean: NDArray[np.float64]) -> Frame:
    """The ground truth's unit sphere, in which CD, HD, P2S and EMD are measured."""
    if not np.ptp(clean, axis=0).any():
        raise PdflowError("The clean cloud has no extent: all its points are the same.")
    return unit_sphere(clean)


def frame_of_mesh(mesh: TriangleMesh) -> Frame:
    """The mesh's unit sphere, in which P2M, RMS and uniformity are measured.

    Only corners of faces count: an unused vertex is not part of the surface.
    """
    if not len(mesh.faces):
        raise PdflowError("The mesh has no faces: there is no surface to measure against.")
    if not mesh.areas.any():
        raise PdflowError("The mesh has no area: all its faces are degenerate.")
    return unit_sphere(mesh.vertices[np.unique(mesh.faces)])


def mesh_in(frame: Frame, mesh: TriangleMesh) -> TriangleMesh:
    """The mesh with its vertices in a frame."""
    return TriangleMesh(frame.apply(mesh.vertices), mesh.faces)
