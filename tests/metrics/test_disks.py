"""Uniformity: an independent calculation, what it must rank, its seed and its limits."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from pdflow.errors import PdflowError
from pdflow.geometry.sampling import sample_mesh
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.mesh import TriangleMesh
from pdflow.metrics import uniformity
from pdflow.metrics.disks import FRACTIONS

FEW = (0.01, 0.02)


def by_hand(
    pred: NDArray[np.float64], mesh: TriangleMesh, disks: int, seed: int
) -> dict[float, float]:
    """The ball version from its definition; the mesh must already be in its unit sphere."""
    points = closest_on_mesh(pred, mesh)[2]
    seeds, _ = sample_mesh(mesh, disks, method="uniform", seed=seed)
    scores = {}
    for p in FEW:
        radius = np.sqrt(p * mesh.areas.sum() / np.pi)
        values = []
        for center in seeds:
            disk = points[np.linalg.norm(points - center, axis=1) <= radius]
            n = len(disk)
            if n < 5:
                continue
            table = cdist(disk, disk)
            np.fill_diagonal(table, np.inf)
            spacing = np.sqrt(2 * np.pi * radius**2 / (n * np.sqrt(3)))
            clutter = ((table.min(1) - spacing) ** 2 / spacing).mean()
            values.append((n - p * len(points)) ** 2 / (p * len(points)) * clutter)
        scores[p] = float(np.mean(values))
    return scores


def test_balls_from_the_definition(noisy_ball: NDArray[np.float64], sphere: TriangleMesh) -> None:
    expected = by_hand(noisy_ball, sphere, disks=60, seed=4)
    found = uniformity(noisy_ball, sphere, FEW, disks=60, seed=4, geodesic=False)
    assert found == pytest.approx(expected, rel=1e-9)


def test_on_a_plane_disks_are_balls() -> None:
    """A flat sheet has straight shortest paths, so both versions count the same points."""
    sheet = TriangleMesh([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    points = np.random.default_rng(0).uniform(-1, 1, (800, 3))
    disks, balls = (uniformity(points, sheet, FEW, disks=80, geodesic=g) for g in (True, False))
    assert disks == pytest.approx(balls, rel=1e-9)


def test_two_sheets_close_together_are_two_surfaces() -> None:
    """A thin plate: balls reach through it and count twice as many points, disks do not."""
    plate = trimesh.creation.box((2, 2, 0.001)).subdivide().subdivide()
    mesh = TriangleMesh(plate.vertices, plate.faces)
    points, _ = sample_mesh(mesh, 1500, method="uniform", seed=3)
    disks, balls = (uniformity(points, mesh, FEW, disks=100, geodesic=g) for g in (True, False))
    assert all(disks[p] < 0.5 * balls[p] for p in FEW)


def test_even_points_beat_random_ones_and_clustered_are_worst(sphere: TriangleMesh) -> None:
    even, _ = sample_mesh(sphere, 1500, method="even", seed=0)
    random, _ = sample_mesh(sphere, 1500, method="uniform", seed=0)
    clustered = np.repeat(random[:300], 5, axis=0)
    for geodesic in (True, False):
        scores = [
            uniformity(points, sphere, disks=100, geodesic=geodesic)
            for points in (even, random, clustered)
        ]
        for p in FRACTIONS:
            assert 3 * scores[0][p] < scores[1][p] < scores[2][p] / 3


def test_seed(noisy_ball: NDArray[np.float64], sphere: TriangleMesh) -> None:
    first, again, other = (uniformity(noisy_ball, sphere, FEW, disks=50, seed=s) for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_limits_are_one_sentence(noisy_ball: NDArray[np.float64], sphere: TriangleMesh) -> None:
    with pytest.raises(PdflowError, match="too sparse"):
        uniformity(noisy_ball[:50], sphere, disks=20)
    with pytest.raises(PdflowError, match="fractions between 0 and 1"):
        uniformity(noisy_ball, sphere, (0.5, 1.5))
    with pytest.raises(PdflowError, match="no faces"):
        uniformity(noisy_ball, TriangleMesh(np.zeros((3, 3)), np.empty((0, 3))))
