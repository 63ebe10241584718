"""Datasets of PyVista that have points of their own: PolyData, PointSet and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdflow.adapters.adapter import Adapter, is_instance, numbered, source_rows
from pdflow.cloud import PointCloud

ACTIVE = ("active_scalars_name", "active_vectors_name")
"""Which data PyVista draws."""


class PyVistaAdapter(Adapter):
    """A dataset of PyVista; points keep their dtype, cells stay as they are."""

    columns = "inside"

    @classmethod
    def takes(cls, cloud: Any) -> bool:
        """Whether a cloud is one of these."""
        return is_instance(cloud, "pyvista.PointSet", "pyvista.PolyData", "pyvista.PointGrid")

    @property
    def fixed_rows(self) -> str | None:
        """Cells other than one vertex for each point, which a cloud has."""
        given = self.given
        plain = is_instance(given, "pyvista.PointSet") and not given.n_cells
        plain |= is_instance(given, "pyvista.PolyData") and given.n_cells == given.n_verts
        return None if plain else "cells"

    def read(self) -> PointCloud:
        """The points, and `point_data`."""
        return numbered(np.asarray(self.given.points), dict(self.given.point_data.items()))

    def restore(self, clean: PointCloud, added: Sequence[str]) -> Any:
        """A copy with other points, and the rows of `point_data` that they come from."""
        given = self.given
        rows = source_rows(clean, given.n_points)
        points = clean.points.astype(given.points.dtype)
        if rows is None:
            result = given.copy()
            result.points = points
        else:
            result = type(given)(points)
            for name, values in given.point_data.items():
                result.point_data[name] = np.asarray(values)[rows]
            for name, values in given.field_data.items():
                result.field_data[name] = values
        for name in added:
            result.point_data[name] = clean.attributes[name]
        for name in ACTIVE:
            setattr(result, name, getattr(given, name))
        return result
