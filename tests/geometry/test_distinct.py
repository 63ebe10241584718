"""Equal points are found whatever their bits."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.distinct import NEARLY, distinct, nearly_equal
from pdflow.geometry.neighbors import NeighborSearch


@pytest.mark.parametrize("values", [2, 5, 40])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 2.0**40])
def test_first_of_equal_points_is_kept_in_order(values: int, scale: float) -> None:
    rng = np.random.default_rng(values)
    points = rng.integers(-values, values, size=(3000, 3)) * scale
    single, place = distinct(points)
    _, first = np.unique(points, axis=0, return_index=True)
    assert np.array_equal(single, points[np.sort(first)])
    assert np.array_equal(single[place], points)


def test_zero_has_no_sign() -> None:
    single, place = distinct(np.array([[0.0, 1, 2], [-0.0, 1, 2], [0, 1, -2]]))
    assert len(single) == 2
    assert place.tolist() == [0, 0, 1]


def test_points_that_differ_in_the_last_bit_are_two() -> None:
    points = np.ones((2, 3))
    points[1, 2] = np.nextafter(1.0, 2.0)
    single, place = distinct(points)
    assert np.array_equal(single, points)
    assert place.tolist() == [0, 1]


@pytest.mark.parametrize("count", [0, 1])
def test_few_points(count: int) -> None:
    single, place = distinct(np.zeros((count, 3)))
    assert single.shape == (count, 3)
    assert place.tolist() == [0] * count


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_points_that_rounding_brought_apart_are_nearly_equal(copies: int) -> None:
    rng = np.random.default_rng(0)
    points = rng.random((500, 3)) * [1, 1, 0]
    clouds = [points + rng.normal(size=points.shape) * 1e-8 for _ in range(copies)]
    twins = nearly_equal(NeighborSearch(np.concatenate(clouds)))
    assert np.array_equal(twins, np.tile(np.arange(500), copies))


def test_points_of_a_surface_are_not_nearly_equal() -> None:
    points = np.random.default_rng(0).random((20_000, 3)) * [1, 1, 0]
    twins = nearly_equal(NeighborSearch(points))
    assert np.count_nonzero(twins != np.arange(len(points))) <= 20_000 * 13 * NEARLY**2 * 3


def test_components_far_apart_keep_their_points() -> None:
    points = np.random.default_rng(0).random((200, 3))
    far = np.concatenate([points, points + 1e9])
    assert np.array_equal(nearly_equal(NeighborSearch(far)), np.arange(400))


@pytest.mark.parametrize("count", [0, 1, 13])
def test_few_points_are_not_nearly_equal(count: int) -> None:
    points = np.random.default_rng(0).random((count, 3))
    assert nearly_equal(NeighborSearch(points)).tolist() == list(range(count))
