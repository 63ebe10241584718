from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.axes import OwnFrame
from pdflow.noise.sampling import Sample, stable_sample

POINTS = np.random.default_rng(0).uniform(-1, 1, (20_000, 3)) * [1, 1, 0]


def sample(points: np.ndarray, wanted: int = 1000, seed: int = 0) -> Sample:
    return stable_sample(points, OwnFrame.of(points), wanted, seed)


def test_has_about_as_many_points_as_wanted_in_all_places() -> None:
    chosen = POINTS[sample(POINTS).rows]
    assert len(chosen) == pytest.approx(1000, abs=120)
    quarters = np.histogram2d(chosen[:, 0], chosen[:, 1], 2)[0]
    assert quarters.min() > 180


def test_a_grid_is_sampled_like_any_cloud() -> None:
    axis = np.arange(150.0)
    grid = np.stack(np.meshgrid(axis, axis, [0.0]), axis=-1).reshape(-1, 3)
    found = sample(grid)
    assert len(found.rows) == pytest.approx(1000, abs=150)
    assert found.weights.mean() > 0.6


def test_the_order_of_rows_does_not_matter() -> None:
    order = np.random.default_rng(1).permutation(len(POINTS))
    one, other = sample(POINTS), sample(POINTS[order])
    np.testing.assert_array_equal(POINTS[one.rows], POINTS[order][other.rows])
    np.testing.assert_array_equal(one.weights, other.weights)


def test_only_points_of_little_weight_come_and_go() -> None:
    moved = POINTS + np.random.default_rng(2).uniform(-1e-6, 1e-6, POINTS.shape)
    one, other = (
        dict(zip(s.rows, s.weights, strict=True)) for s in (sample(POINTS), sample(moved))
    )
    assert all(one.get(row, 0) < 0.02 and other.get(row, 0) < 0.02 for row in one.keys() ^ other)
    assert all(abs(one[row] - other[row]) < 0.02 for row in one.keys() & other)


def test_a_smaller_sample_is_a_part_of_it() -> None:
    large, small = sample(POINTS, 4000), sample(POINTS, 500)
    np.testing.assert_array_equal(large.first(500 / len(POINTS)).rows, small.rows)


def test_seeds_choose_different_points() -> None:
    assert len(set(sample(POINTS).rows) & set(sample(POINTS, seed=1).rows)) < 150


def test_small_clouds_are_taken_as_they_are() -> None:
    found = sample(POINTS[:100])
    assert sorted(found.rows) == list(range(100))
    assert (found.weights == 1).all()


@pytest.mark.parametrize("seed", range(8))
def test_clumps_that_are_far_apart_are_sampled_too(seed: int) -> None:
    """Each clump lies in one cell: all of them could be left out, and an estimate had no points."""
    clump = np.random.default_rng(seed).normal(size=(3000, 3))
    points = np.concatenate([clump, clump[::-1] + 1e9])
    sample = stable_sample(points, OwnFrame.of(points), 500, seed)
    assert len(sample.rows) > 60
    assert np.isfinite(sample.weights).all()


def test_a_large_sample_begins_with_the_smaller_ones() -> None:
    points = np.random.default_rng(3).uniform(-1, 1, (60_000, 3)).round(2)
    large = sample(points, 50_000)
    assert len(large.rows) == len(np.unique(large.rows)) > 45_000
    assert (np.diff(large.numbers) >= 0).all()
    for wanted in (500, 10_000):
        small, begin = sample(points, wanted), large.first(wanted / len(points))
        assert np.array_equal(small.numbers, begin.numbers)
        assert np.array_equal(points[small.rows], points[begin.rows])
        assert np.array_equal(small.weights, begin.weights)
