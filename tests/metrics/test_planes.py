"""P2S: closed form on a plane, normals given or fitted, brute force."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from pdflow.errors import PdflowError
from pdflow.metrics import estimate_normals, point_to_surface, sq_point_to_surface

GRID = np.stack([*np.meshgrid(np.arange(9.0), np.arange(9.0)), np.zeros((9, 9))], -1).reshape(-1, 3)
RADIUS = np.sqrt(32)


def test_height_above_a_plane() -> None:
    points = [[2.3, 4.1, 0.5], [5.0, 5.0, -1.5]]
    assert point_to_surface(points, GRID) == pytest.approx(1 / RADIUS)
    assert sq_point_to_surface(points, GRID) == pytest.approx((0.25 + 2.25) / 2 / RADIUS**2)


def test_length_and_sign_of_normals_do_not_matter() -> None:
    normals = np.tile([0.0, 0.0, 1.0], (len(GRID), 1))
    normals[::2] *= -3
    points = np.random.default_rng(0).uniform(0, 8, (50, 3))
    fitted = point_to_surface(points, GRID)
    assert point_to_surface(points, GRID, normals) == pytest.approx(fitted, rel=1e-9)


def test_agrees_with_brute_force(noisy_ball: NDArray[np.float64]) -> None:
    clean = noisy_ball / np.linalg.norm(noisy_ball, axis=1, keepdims=True)
    center = (clean.min(0) + clean.max(0)) / 2
    radius = np.linalg.norm(clean - center, axis=1).max()
    near = cKDTree(clean).query(noisy_ball, 16)[1]
    planes = np.abs(((noisy_ball[:, None] - clean[near]) * clean[near]).sum(2)).min(1)
    found = point_to_surface(noisy_ball, clean, normals=clean)
    assert found == pytest.approx(planes.mean() / radius, rel=1e-9)


def test_fitted_normals_of_a_sphere(noisy_ball: NDArray[np.float64]) -> None:
    clean = noisy_ball / np.linalg.norm(noisy_ball, axis=1, keepdims=True)
    normals = estimate_normals(clean)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, rtol=1e-12)
    assert np.abs((normals * clean).sum(1)).min() > 0.98


def test_few_clean_points() -> None:
    corner = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert point_to_surface([[0.2, 0.2, 0.1]], corner) == pytest.approx(0.1 / np.sqrt(0.5))


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(PdflowError, match="Normals cannot be fitted to 2 points"):
        point_to_surface([[0, 0, 0]], [[0, 0, 0], [1, 0, 0]])
    with pytest.raises(PdflowError, match="1 normals for 81 clean points"):
        point_to_surface([[0, 0, 0]], GRID, [[0, 0, 1]])
    with pytest.raises(PdflowError, match="point 0 has no length"):
        point_to_surface([[0, 0, 0]], GRID, np.zeros_like(GRID))
