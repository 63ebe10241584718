"""Connected components: parts of a cloud that no patch may hold together."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.components import points_within_reach, split_components
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.patches import cover


def _cube(count: int, at: float = 0.0) -> np.ndarray:
    return np.random.default_rng(count).uniform(size=(count, 3)) + np.array([at, 0, 0])


def _components(*parts: np.ndarray) -> list[list[int]]:
    points = np.concatenate(parts)
    patches = cover(NeighborSearch(points), 200, 3.0)
    return [rows.tolist() for rows in split_components(patches, len(points))]


def test_reach_ends_at_the_first_gap_that_doubles_it() -> None:
    near = np.linspace(0, 1, 100)
    far = np.concatenate([near, near + 1.9, near + 7])
    assert points_within_reach(np.square([far, np.arange(300.0)])).tolist() == [200, 300]


def test_gaps_near_the_seed_count_where_they_are_very_wide() -> None:
    near, far = np.linspace(0, 1, 40), np.linspace(0, 2, 60)
    distances = [np.concatenate([near, far + gap]) for gap in (8, 12)]
    assert points_within_reach(np.square(distances)).tolist() == [100, 40]
    few = np.concatenate([near[:12], far + 1000])
    assert points_within_reach(np.square([few])).tolist() == [72]
    assert points_within_reach(np.square([near[:12]])).tolist() == [12]


def test_one_component_stays_whole() -> None:
    assert _components(_cube(100)) == [list(range(100))]
    assert _components(_cube(1000)) == [list(range(1000))]
    assert _components(_cube(100), _cube(90, at=2)) == [list(range(190))]


def test_small_parts_far_apart_are_components_and_large_ones_need_not_be() -> None:
    both = _components(_cube(100), _cube(120, at=50))
    assert sorted(both) == [list(range(100)), list(range(100, 220))]
    assert _components(_cube(100), _cube(500, at=50)) == [list(range(100)), list(range(100, 600))]
    assert _components(_cube(300), _cube(500, at=50)) == [list(range(800))]


def test_every_point_is_in_one_component() -> None:
    parts = [_cube(70 + i, at=40.0 * i) for i in range(12)]
    rows = np.concatenate(_components(*parts))
    assert np.array_equal(np.sort(rows), np.arange(sum(map(len, parts))))
