"""`open3d.t.geometry.PointCloud`: points with any attributes, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdflow.adapters.adapter import Adapter, is_instance, numbered, source_rows
from pdflow.cloud import PointCloud


class TensorCloudAdapter(Adapter):
    """A tensor cloud of Open3D; device, dtypes and all attributes are kept."""

    columns = "inside"

    @classmethod
    def takes(cls, cloud: Any) -> bool:
        """Whether a cloud is one of these."""
        return is_instance(cloud, "open3d.t.geometry.PointCloud")

    def read(self) -> PointCloud:
        """`point.positions`, and everything else in `point`."""
        values = {name: self._tensor(name).cpu().numpy() for name in self.given.point}
        return numbered(values.pop("positions"), values)

    def restore(self, clean: PointCloud, added: Sequence[str]) -> Any:
        """A clone with other positions, and the rows of all attributes that they come from."""
        result = self.given.clone()
        positions = self._tensor("positions")
        rows = source_rows(clean, len(positions))
        if rows is not None:
            for name in self.given.point:
                kept = self._tensor(name).cpu().numpy()[rows]
                result.point[name] = self._like(positions, kept)
        placed = clean.points.astype(positions.cpu().numpy().dtype)
        result.point["positions"] = self._like(positions, placed)
        for name in added:
            values = clean.attributes[name]
            # Open3D has attributes (M, W) only.
            columns = values.reshape(len(values), -1)
            result.point[name] = self._like(positions, columns)
        return result

    def _tensor(self, name: str) -> Any:
        return self.given.point[name]

    @staticmethod
    def _like(tensor: Any, values: Any) -> Any:
        """Values as a tensor of the same library on the same device."""
        return type(tensor)(np.ascontiguousarray(values), device=tensor.device)
