"""Clouds and meshes of trimesh: their vertices are the points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pdflow.adapters.adapter import Adapter, is_instance, numbered, source_rows
from pdflow.cloud import PointCloud


class TrimeshAdapter(Adapter):
    """A `trimesh.PointCloud`, or a `trimesh.Trimesh`, whose vertices keep their rows.

    Clouds of trimesh have no room for values by name; meshes have `vertex_attributes`.
    """

    def __init__(self, given: Any) -> None:
        super().__init__(given)
        self.is_mesh = hasattr(given, "faces")
        self.columns = "inside" if self.is_mesh else "nowhere"

    @classmethod
    def takes(cls, cloud: Any) -> bool:
        """Whether a cloud is one of these."""
        return is_instance(cloud, "trimesh.PointCloud", "trimesh.Trimesh")

    @property
    def fixed_rows(self) -> str | None:
        """The faces of a mesh."""
        return "faces" if self.is_mesh else None

    def read(self) -> PointCloud:
        """The vertices, with colours or with the attributes of a mesh."""
        given = self.given
        attributes = given.vertex_attributes if self.is_mesh else {"colors": given.colors}
        return numbered(given.vertices, attributes)

    def restore(self, clean: PointCloud, added: Sequence[str]) -> Any:
        """A copy with other vertices, and the colours of the points that they come from."""
        given = self.given
        result = given.copy()
        rows = source_rows(clean, len(given.vertices))
        result.vertices = clean.points
        if rows is not None and "colors" in clean.attributes:
            result.colors = clean.attributes["colors"]
        for name in added:
            result.vertex_attributes[name] = clean.attributes[name]
        return result
