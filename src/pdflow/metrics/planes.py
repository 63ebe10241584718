"""P2S: distance to the tangent planes of a clean cloud, for data without meshes.

Frame: the ground-truth points' unit sphere (bounding-box centre, largest radius).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.geometry.neighbors import knn
from pdflow.geometry.normals import NEIGHBOURS, fit_normals
from pdflow.metrics.inputs import as_points, frame_of_cloud


@dataclass(frozen=True)
class PlaneDistances:
    """Distances (M,) from every point to the nearest of the tangent planes around it."""

    to_plane: NDArray[np.float64]

    @property
    def point_to_surface(self) -> float:
        """Mean of the plain distances."""
        return float(self.to_plane.mean())

    @property
    def sq_point_to_surface(self) -> float:
        """Mean of the squared distances."""
        return float((self.to_plane**2).mean())


def plane_distances(pred: Any, clean: Any, normals: Any = None) -> PlaneDistances:
    """Measure a cloud against tangent planes once, for both metrics of this family.

    pred     (M, 3)
    clean    (K, 3)
    normals  (K, 3) of the clean points, of any length and sign; by default fitted
    """
    pred, clean = as_points(pred, "The prediction"), as_points(clean, "The clean cloud")
    frame = frame_of_cloud(clean)
    pred, clean = frame.apply(pred), frame.apply(clean)
    units = estimate_normals(clean) if normals is None else _unit_normals(normals, len(clean))
    near = knn(clean, pred, min(NEIGHBOURS, len(clean)))[1]
    heights = np.einsum("mki,mki->mk", pred[:, None] - clean[near], units[near])
    return PlaneDistances(np.abs(heights).min(1))


def point_to_surface(pred: Any, clean: Any, normals: Any = None) -> float:
    """Mean distance to the nearest tangent plane of the 16 nearest clean points (P2S, Eq. 24).

    pred     (M, 3)
    clean    (K, 3)
    normals  (K, 3) of the clean points, of any length and sign; by default fitted

    Frame: the clean points' unit sphere.

    >>> plane = [[x, y, 0] for x in range(5) for y in range(5)]
    >>> radius = 8**0.5  # of a square of side 4
    >>> round(point_to_surface([[1, 1, 0.5]], plane) * radius, 12)
    0.5
    """
    return plane_distances(pred, clean, normals).point_to_surface


def sq_point_to_surface(pred: Any, clean: Any, normals: Any = None) -> float:
    """P2S with squared distances; arguments and frame as in `point_to_surface`."""
    return plane_distances(pred, clean, normals).sq_point_to_surface


def estimate_normals(points: Any, neighbours: int = NEIGHBOURS) -> NDArray[np.float64]:
    """Unit normals (M, 3), of arbitrary sign: the direction in which nearby points vary least.

    points      (M, 3), at least three
    neighbours  number of nearest points, itself included, that each normal is fitted to
    """
    cloud = as_points(points, "The cloud")
    if len(cloud) < 3:
        raise PdflowError(
            f"Normals cannot be fitted to {len(cloud)} points: give at least 3 points, or normals."
        )
    return fit_normals(cloud, cloud, neighbours)


def _unit_normals(normals: Any, count: int) -> NDArray[np.float64]:
    vectors = as_points(normals, "The normals")
    if len(vectors) != count:
        raise PdflowError(
            f"There are {len(vectors)} normals for {count} clean points: give one for each."
        )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not lengths.all():
        row = int(np.argmin(lengths))
        raise PdflowError(f"The normal of clean point {row} has no length: leave the normals out.")
    return np.asarray(vectors / lengths)
