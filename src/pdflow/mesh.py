"""TriangleMesh: a surface to sample from and to measure against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdflow.errors import PdflowError
from pdflow.reprs import counted, extent


@dataclass(eq=False, repr=False)
class TriangleMesh:
    """Vertices (V, 3) float64 and faces (F, 3) int64 of vertex rows.

    >>> mesh = TriangleMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> mesh, mesh.areas.tolist()
    (TriangleMesh: 3 vertices, 1 face; 1.0 x 1.0 x 0.0, [0.5])
    """

    vertices: NDArray[np.float64]
    faces: NDArray[np.int64]

    def __init__(self, vertices: ArrayLike, faces: ArrayLike) -> None:
        self.vertices = np.ascontiguousarray(vertices, dtype=np.float64).reshape(-1, 3)
        self.faces = np.ascontiguousarray(faces, dtype=np.int64).reshape(-1, 3)
        if self.faces.size and not 0 <= self.faces.min() <= self.faces.max() < len(self.vertices):
            raise PdflowError(
                f"A face points at vertex {self.faces.max()} (or below 0) but the mesh has "
                f"{len(self.vertices)} vertices: the file is damaged."
            )

    def __repr__(self) -> str:
        """Vertices, faces and extent in one line."""
        what = f"{counted(len(self.vertices), 'vertex')}, {counted(len(self.faces), 'face')}"
        return f"TriangleMesh: {what}; {extent(self.vertices)}"

    @property
    def triangles(self) -> NDArray[np.float64]:
        """(F, 3, 3): corner coordinates of every face."""
        return self.vertices[self.faces]

    @property
    def areas(self) -> NDArray[np.float64]:
        """(F,): area of every face."""
        a, b, c = self.triangles.transpose(1, 0, 2)
        return np.asarray(0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1))
