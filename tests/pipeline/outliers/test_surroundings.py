"""Surroundings: distances, layers and projections are those of the neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.neighbors import NeighborSearch
from pdflow.pipeline.outliers.surroundings import (
    ACROSS,
    BREADTH,
    NEIGHBOURS,
    NUMBERS,
    SAMPLED,
    SPACING,
    THICKNESSES,
    describe,
)


@pytest.fixture
def plane() -> np.ndarray:
    return np.random.default_rng(0).random((2000, 3)) * [1, 1, 0]


def test_a_point_above_a_plane_is_projected_onto_it(plane: np.ndarray) -> None:
    point = np.array([[0.5, 0.5, 0.03]])
    numbers, sampled, feet = describe(NeighborSearch(plane), point, point)
    assert feet[0] == pytest.approx([0.5, 0.5, 0.0])
    assert np.exp(numbers[0, ACROSS]) == pytest.approx(0.03, rel=0.05)
    assert np.exp(numbers[0, THICKNESSES[1]]) < 0.002
    assert np.exp(numbers[0, BREADTH]) > 0.01
    assert sampled.shape == (1, SAMPLED)


def test_a_point_is_no_neighbour_of_its_own(plane: np.ndarray) -> None:
    search = NeighborSearch(plane)
    numbers, sampled, _ = describe(search, plane, plane)
    assert numbers.shape == (len(plane), NUMBERS)
    assert (sampled != np.arange(len(plane))[:, None]).all()
    eighth = np.sqrt(search.knn(plane, 9)[0][:, 8])
    assert np.exp(numbers[:, SPACING]) == pytest.approx(1.01 * eighth, rel=1e-4)


def test_lengths_grow_with_the_cloud(plane: np.ndarray) -> None:
    small, _, _ = describe(NeighborSearch(plane), plane, plane)
    large, _, _ = describe(NeighborSearch(100 * plane), 100 * plane, 100 * plane)
    assert large - small == pytest.approx(np.full(small.shape, np.log(100)), abs=1e-3)


def test_fewer_points_than_neighbours() -> None:
    points = np.random.default_rng(1).random((NEIGHBOURS // 2, 3))
    numbers, sampled, _ = describe(NeighborSearch(points), points, points)
    assert np.isfinite(numbers).all()
    assert sampled.max() < len(points)
