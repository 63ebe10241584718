"""Equal points are found whatever their bits."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.distinct import distinct


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
