from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pdflow.adapters.groups import group
from pdflow.errors import PdflowError

trimesh = pytest.importorskip("trimesh", reason="trimesh is not installed")

KEPT, SHIFT = [4, 0, 2, 2], np.array([1, 0, 0])


@pytest.mark.parametrize("rows", [slice(None), KEPT])
def test_clouds_keep_colours_and_metadata(
    rows: Any, points: np.ndarray, passed: Callable[..., Any]
) -> None:
    colors = np.arange(200, dtype=np.uint8).reshape(50, 4)
    cloud = trimesh.PointCloud(points, colors=colors, metadata={"site": "north"})
    clean = passed(cloud, rows)
    assert type(clean) is trimesh.PointCloud
    assert np.array_equal(clean.vertices, points[rows] + SHIFT)
    assert np.array_equal(clean.colors, colors[rows])
    assert clean.metadata["site"] == "north"
    assert np.array_equal(cloud.vertices, points)


@pytest.mark.parametrize("rows", [slice(None), KEPT])
def test_clouds_need_no_colours(rows: Any, points: np.ndarray, passed: Callable[..., Any]) -> None:
    clean = passed(trimesh.PointCloud(points), rows)
    assert np.array_equal(clean.vertices, points[rows] + SHIFT)


def test_meshes_keep_their_faces(passed: Callable[..., Any]) -> None:
    mesh = trimesh.creation.icosphere(subdivisions=1)
    mesh.vertex_attributes["weight"] = np.arange(len(mesh.vertices))
    clean = passed(mesh, added=["outlier"])
    assert np.array_equal(clean.vertices, mesh.vertices + SHIFT)
    assert np.array_equal(clean.faces, mesh.faces)
    assert set(clean.vertex_attributes) == {"weight", "outlier"}
    with pytest.raises(PdflowError, match=r"The faces of this trimesh.Trimesh"):
        group(mesh).check_rows(some_go=False)


def test_clouds_say_that_they_have_no_room(points: np.ndarray) -> None:
    with pytest.raises(PdflowError, match=r"trimesh.PointCloud has no room for 'outlier'"):
        group(trimesh.PointCloud(points)).check_room(["outlier"])
