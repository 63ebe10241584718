from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pdflow.adapters import adapt
from pdflow.adapters.groups import group
from pdflow.errors import PdflowError

pv = pytest.importorskip("pyvista", reason="pyvista is not installed")

KEPT, SHIFT = [4, 0, 2, 2], np.array([1, 0, 0])


@pytest.mark.parametrize("kind", ["PolyData", "PointSet"])
@pytest.mark.parametrize("rows", [slice(None), KEPT])
def test_clouds_keep_types_and_all_data(
    kind: str, rows: Any, points: np.ndarray, passed: Callable[..., Any]
) -> None:
    cloud = getattr(pv, kind)(points.astype(np.float32))
    cloud.point_data["intensity"] = np.arange(50, dtype=np.uint16)
    cloud.point_data["colors"] = np.arange(150, dtype=np.uint8).reshape(50, 3)
    cloud.field_data["site"] = [7]
    cloud.active_scalars_name = "intensity"
    clean = passed(cloud, rows, added=["outlier"])
    assert type(clean) is type(cloud)
    assert clean.points.dtype == np.float32
    assert np.asarray(clean.points) == pytest.approx(points[rows] + SHIFT, abs=1e-6)
    for name in ("intensity", "colors"):
        assert clean.point_data[name].dtype == cloud.point_data[name].dtype
        assert np.array_equal(clean.point_data[name], cloud.point_data[name][rows])
    assert clean.field_data["site"].tolist() == [7]
    assert clean.active_scalars_name == "intensity"
    assert clean.point_data["outlier"].tolist() == list(range(len(points[rows])))
    assert "outlier" not in cloud.point_data
    assert np.asarray(cloud.points) == pytest.approx(points, abs=1e-6)


def test_meshes_keep_their_cells(passed: Callable[..., Any]) -> None:
    mesh = pv.Sphere(theta_resolution=8, phi_resolution=8)
    clean = passed(mesh)
    assert np.array_equal(clean.faces, mesh.faces)
    assert np.asarray(clean.points) == pytest.approx(mesh.points + SHIFT, abs=1e-6)
    with pytest.raises(PdflowError, match=r"The cells of this pyvista.PolyData"):
        group(mesh).check_rows(some_go=False)


def test_point_data_can_be_named() -> None:
    cloud = pv.PolyData(np.eye(3))
    cloud["sigma"] = np.ones(3)
    assert adapt(cloud).read().attributes["sigma"].tolist() == [1, 1, 1]
