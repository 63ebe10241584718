"""`open3d.geometry.PointCloud`: points with colours, normals and covariances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdflow.adapters.adapter import Adapter, is_instance, numbered, source_rows
from pdflow.cloud import PointCloud


class LegacyAdapter(Adapter):
    """A legacy cloud of Open3D, which has no room for other data of its points."""

    columns = "nowhere"

    @classmethod
    def takes(cls, cloud: Any) -> bool:
        """Whether a cloud is one of these."""
        return is_instance(cloud, "open3d.geometry.PointCloud")

    def read(self) -> PointCloud:
        """The points, colours and normals."""
        given = self.given
        attributes = {"colors": given.colors, "normals": given.normals}
        return numbered(np.asarray(given.points), attributes)

    def restore(self, clean: PointCloud, added: Sequence[str]) -> Any:
        """A copy with other points, and with the rows of the other data that they come from."""
        rows = source_rows(clean, len(self.given.points))
        result = type(self.given)(self.given)
        if rows is not None:
            for name in ("points", "colors", "normals", "covariances"):
                values = getattr(self.given, name)
                if len(values):
                    setattr(result, name, type(values)(np.asarray(values)[rows]))
        result.points = type(self.given.points)(clean.points)
        return result
