"""Clumps are counted by links between near points, whatever their density."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.neighbors import NeighborSearch
from pdflow.pipeline.outliers.clumps import clump_sizes


def grid(count: int, spacing: float) -> np.ndarray:
    axis = spacing * np.arange(count)
    return np.stack(np.meshgrid(axis, axis, [0.0]), axis=-1).reshape(-1, 3)


def test_parts_of_a_cloud_are_counted_apart() -> None:
    dense, sparse = grid(10, 0.1), grid(5, 1.0) + np.array([20.0, 0, 0])
    single = np.array([[10.0, 0.0, 0.0]])
    sizes = clump_sizes(NeighborSearch(np.concatenate([dense, sparse, single])))
    assert (sizes[:100] == 100).all()
    assert (sizes[100:125] == 25).all()
    assert sizes[125] == 1


def test_fewer_points_than_neighbours() -> None:
    assert clump_sizes(NeighborSearch([[0.0, 0, 0]])).tolist() == [1]
    assert clump_sizes(NeighborSearch(grid(2, 1.0))).tolist() == [4] * 4
