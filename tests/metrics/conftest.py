"""Shapes whose distances are known."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh
from numpy.typing import NDArray

from pdflow.mesh import TriangleMesh


@pytest.fixture
def lattice() -> NDArray[np.float64]:
    """A cubic grid of 5 x 5 x 5 points with spacing 1: its unit sphere has radius sqrt(12)."""
    return np.stack(np.meshgrid(*[np.arange(5.0)] * 3, indexing="ij"), -1).reshape(-1, 3)


@pytest.fixture
def sphere() -> TriangleMesh:
    """An icosphere of radius 1 with 1280 faces."""
    ball = trimesh.creation.icosphere(subdivisions=3)
    return TriangleMesh(ball.vertices, ball.faces)


@pytest.fixture
def cube() -> TriangleMesh:
    """A cube of side 2 around the origin: 12 faces, and bounding radius sqrt(3)."""
    box = trimesh.creation.box((2, 2, 2))
    return TriangleMesh(box.vertices, box.faces)


@pytest.fixture
def noisy_ball() -> NDArray[np.float64]:
    """1500 points near the unit sphere."""
    rng = np.random.default_rng(1)
    ways = rng.standard_normal((1500, 3))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    return ways * (1 + 0.03 * rng.standard_normal((1500, 1)))


@pytest.fixture
def rotation() -> NDArray[np.float64]:
    """A rotation (3, 3) about no axis in particular."""
    q, _ = np.linalg.qr(np.random.default_rng(7).standard_normal((3, 3)))
    return np.asarray(q * np.sign(np.linalg.det(q)))
