"""Whole files: packed ones, meshes and clouds, points that are not finite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdflow import PointCloud, read, read_mesh, write, write_mesh
from pdflow.errors import PdflowError
from pdflow.io import drop_nonfinite, require_finite
from pdflow.io.registry import PACKED
from pdflow.mesh import TriangleMesh


@pytest.mark.parametrize("suffix", sorted(PACKED))
def test_packed_files_are_refused(tmp_path: Path, suffix: str) -> None:
    for path in (tmp_path / f"a.xyz{suffix}", tmp_path / "a.xyz", tmp_path / "a.ply"):
        path.write_bytes(PACKED[suffix] + bytes(99))
        if suffix == ".zip" and path.suffix != suffix:
            continue  # it could be NPZ, whatever its name
        with pytest.raises(PdflowError, match=rf"{path.name} is packed: unpack it first"):
            read(path)


def test_mesh_is_not_a_cloud_and_cloud_is_not_a_mesh(tmp_path: Path) -> None:
    mesh = TriangleMesh(np.eye(3), [[0, 1, 2]])
    write_mesh(tmp_path / "a.off", mesh)
    with pytest.raises(PdflowError, match="off holds meshes, not clouds"):
        read(tmp_path / "a.off")
    with pytest.raises(PdflowError, match="holds meshes"):
        write(tmp_path / "b.stl", PointCloud(np.eye(3)))
    with pytest.raises(PdflowError, match="npy holds no mesh"):
        read_mesh(tmp_path / "a.npy")
    with pytest.raises(PdflowError, match="npy holds no mesh"):
        write_mesh(tmp_path / "b.npy", mesh)
    assert [p.name for p in tmp_path.iterdir()] == ["a.off"]


def test_nonfinite_points_are_refused_or_dropped() -> None:
    points = np.arange(15.0).reshape(5, 3)
    points[1, 2], points[4, 0] = np.nan, -np.inf
    cloud = PointCloud(points, {"id": np.arange(5)})
    with pytest.raises(PdflowError, match=r"scan.ply: 2 of 5 points .* row 1: .*--drop-nonfinite"):
        require_finite(cloud, "scan.ply")
    rest, dropped = drop_nonfinite(cloud)
    assert dropped == 2
    assert rest.attributes["id"].tolist() == [0, 2, 3]
    assert require_finite(rest, "scan.ply") is rest
    assert drop_nonfinite(rest) == (rest, 0)
