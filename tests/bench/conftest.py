"""A small data folder in the layout of ScoreDenoise, of generated shapes; a command line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, TriangleMesh, write, write_mesh
from pdflow.geometry import sample_mesh
from pdflow.noise import add_noise

COUNTS = {"10000": 320, "30000": 2000, "50000": 400}
"""Folder name -> points that its clouds really have; uniformity needs several in a disk."""


def ellipsoid(axes: tuple[float, float, float]) -> TriangleMesh:
    """A closed mesh of 12 x 24 quads, cut in two."""
    rows, columns = 12, 24
    polar = np.linspace(0.1, np.pi - 0.1, rows)[:, None]
    azimuth = np.linspace(0, 2 * np.pi, columns, endpoint=False)
    x = np.sin(polar) * np.cos(azimuth)
    y = np.sin(polar) * np.sin(azimuth)
    z = np.cos(polar) * np.ones(columns)
    vertices = np.stack([x, y, z], -1).reshape(-1, 3) * axes
    faces = []
    for i in range(rows - 1):
        for j in range(columns):
            a, b = i * columns + j, i * columns + (j + 1) % columns
            faces += [[a, b, a + columns], [b, b + columns, a + columns]]
    return TriangleMesh(vertices, faces)


@pytest.fixture(scope="session")
def score_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two test shapes with meshes and noisy clouds, and the held-out training shapes."""
    root = tmp_path_factory.mktemp("score")
    clouds = root / "PUNet" / "pointclouds"
    shapes = {"egg": (1.0, 0.8, 0.6), "pill": (1.0, 0.5, 0.5)}
    training = dict.fromkeys(("block", "eros", "fish", "pulley", "twirl"), (1.0, 0.9, 0.5))
    for folder, count in COUNTS.items():
        for split, some in (("test", shapes), ("train", training)):
            for seed, (name, axes) in enumerate(some.items()):
                points, _ = sample_mesh(ellipsoid(axes), count, method="even", seed=seed)
                _write(clouds / split / f"{folder}_poisson" / f"{name}.xyz", points)
                for level in (0.01, 0.02, 0.03) if split == "test" else ():
                    noisy = add_noise(points, "gaussian", level, seed=1)
                    target = root / "examples" / f"PUNet_{folder}_poisson_{level:g}"
                    _write(target / f"{name}.xyz", noisy)
    for name, axes in shapes.items():
        path = root / "PUNet" / "meshes" / "test" / f"{name}.off"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_mesh(path, ellipsoid(axes))
    return root


@pytest.fixture(scope="session")
def dmr_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clouds in the layout of DMRDenoise's test set, one with normals."""
    root = tmp_path_factory.mktemp("dmr")
    for seed, name in enumerate(("chair", "lamp")):
        points, _ = sample_mesh(ellipsoid((1.0, 1.0, 1.0)), 300, method="even", seed=seed)
        _write(root / "gts_full_test_50k" / f"{name}.xyz", points)
    normals = points / np.linalg.norm(points, axis=1, keepdims=True)
    np.savetxt(root / "gts_full_test_50k" / "lamp.normal", normals)
    return root


def _write(path: Path, points: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, PointCloud(points))


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all tables, so that networks which they share are trained once."""
    return tmp_path_factory.mktemp("tables")


@pytest.fixture
def bench(pdflow: Callable[..., Any]) -> Callable[..., Any]:
    """Call with the words after `pdflow bench`."""
    return partial(pdflow, "bench")
