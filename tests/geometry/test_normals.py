"""Normals are those of planes through the nearest points."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.neighbors import knn
from pdflow.geometry.normals import fit_normals


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_they_are_eigenvectors_of_the_smallest_eigenvalue(scale: float) -> None:
    points = scale * np.random.default_rng(0).normal(size=(3000, 3)) * [3, 1, 0.2]
    near = points[knn(points, points, 16)[1]]
    offsets = near - near.mean(1, keepdims=True)
    expected = np.linalg.eigh(offsets.transpose(0, 2, 1) @ offsets)[1][:, :, 0]
    aligned = np.abs((fit_normals(points, points) * expected).sum(1))
    assert aligned == pytest.approx(1, abs=1e-9)


def test_on_a_sphere_they_point_outwards() -> None:
    sphere = np.random.default_rng(0).normal(size=(5000, 3))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    assert np.abs((fit_normals(sphere, 1.01 * sphere[:7]) * sphere[:7]).sum(1)).min() > 0.99


@pytest.mark.parametrize("flat", [(1, 1, 0), (1, 0, 0), (0, 0, 0)])
def test_flat_thin_and_equal_points_have_unit_normals(flat: tuple[float, float, float]) -> None:
    points = np.random.default_rng(0).random((40, 3)) * flat
    normals = fit_normals(points, points)
    assert np.linalg.norm(normals, axis=1) == pytest.approx(1)
    assert np.abs(normals @ np.diag(flat) @ points.T).max() < 1e-12


def test_three_points_are_enough() -> None:
    normal = fit_normals(np.eye(3), np.zeros((1, 3)))[0]
    assert np.abs(normal) == pytest.approx(3**-0.5)
    assert abs(normal.sum()) == pytest.approx(3**0.5)
