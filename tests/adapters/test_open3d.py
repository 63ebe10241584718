from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pdflow.adapters import adapt
from pdflow.adapters.groups import group
from pdflow.errors import PdflowError

o3d = pytest.importorskip("open3d", reason="open3d is not installed (pip install open3d-cpu)")

KEPT = [4, 0, 2, 2]


@pytest.fixture
def legacy(points: np.ndarray) -> Any:
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(points))
    cloud.colors = o3d.utility.Vector3dVector(np.linspace(0, 1, 150).reshape(50, 3))
    cloud.estimate_normals()
    cloud.estimate_covariances()
    return cloud


@pytest.fixture
def tensor(points: np.ndarray) -> Any:
    cloud = o3d.t.geometry.PointCloud(o3d.core.Tensor(points.astype(np.float32)))
    cloud.point["colors"] = o3d.core.Tensor(np.arange(150, dtype=np.uint8).reshape(50, 3))
    cloud.point["intensity"] = o3d.core.Tensor(np.arange(50, dtype=np.int32).reshape(50, 1))
    return cloud


@pytest.mark.parametrize("rows", [slice(None), KEPT])
def test_legacy_clouds_keep_all_their_data(
    legacy: Any, rows: Any, passed: Callable[..., Any]
) -> None:
    clean = passed(legacy, rows)
    assert type(clean) is o3d.geometry.PointCloud
    assert np.array_equal(np.asarray(clean.points), np.asarray(legacy.points)[rows] + [1, 0, 0])
    for name in ("colors", "normals", "covariances"):
        kept = np.asarray(getattr(legacy, name))[rows]
        assert len(kept)
        assert np.array_equal(np.asarray(getattr(clean, name)), kept)


def test_legacy_clouds_with_points_alone_stay_so(
    points: np.ndarray, passed: Callable[..., Any]
) -> None:
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(points))
    clean = passed(cloud, KEPT)
    assert not clean.has_colors()
    assert not clean.has_normals()
    assert np.array_equal(np.asarray(cloud.points), points)


def test_legacy_clouds_say_that_they_have_no_room(legacy: Any) -> None:
    with pytest.raises(PdflowError, match=r"open3d.PointCloud has no room for 'outlier'"):
        group(legacy).check_room(["outlier"])


@pytest.mark.parametrize("rows", [slice(None), KEPT])
def test_tensor_clouds_keep_types_and_attributes(
    tensor: Any, rows: Any, passed: Callable[..., Any]
) -> None:
    before = tensor.point.positions.numpy().copy()
    clean = passed(tensor, rows, added=["outlier"])
    assert type(clean) is o3d.t.geometry.PointCloud
    assert clean.point.positions.dtype == o3d.core.float32
    assert clean.point.positions.numpy() == pytest.approx(before[rows] + [1, 0, 0], abs=1e-6)
    for name in ("colors", "intensity"):
        assert clean.point[name].dtype == tensor.point[name].dtype
        assert np.array_equal(clean.point[name].numpy(), tensor.point[name].numpy()[rows])
    assert clean.point["outlier"].numpy().ravel().tolist() == list(range(len(before[rows])))
    assert "outlier" not in tensor.point
    assert np.array_equal(tensor.point.positions.numpy(), before)


def test_attributes_of_tensor_clouds_can_be_named(tensor: Any) -> None:
    assert adapt(tensor).read().attributes["intensity"].shape == (50, 1)
