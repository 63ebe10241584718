"""Small files to call commands on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdflow import PointCloud, TriangleMesh, write, write_mesh


@pytest.fixture
def cloud() -> PointCloud:
    """200 points with colours, a float column and coordinates that need float64."""
    random = np.random.default_rng(0)
    return PointCloud(
        np.array([5e5, 5e6, 100.0]) + random.random((200, 3)),
        {
            "colors": random.integers(0, 256, (200, 3), dtype=np.uint8),
            "quality": random.random(200),
        },
        {"comments": ["made by a test"]},
    )


@pytest.fixture
def scan(tmp_path: Path, cloud: PointCloud) -> Path:
    """The cloud as a PLY file."""
    path = tmp_path / "scan.ply"
    write(path, cloud)
    return path


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A box of 1 x 2 x 3 as an OFF file."""
    corners = [[x, y, z] for x in (0, 1) for y in (0, 2) for z in (0, 3)]
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    faces = [triangle for a, b, c, d in quads for triangle in ([a, b, c], [a, c, d])]
    path = tmp_path / "box.off"
    write_mesh(path, TriangleMesh(corners, faces))
    return path
