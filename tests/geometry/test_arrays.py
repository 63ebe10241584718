from __future__ import annotations

import numpy as np
import pytest

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import bounding_box, finite_points

POINTS = np.random.default_rng(0).normal(size=(150_000, 3))


def test_the_box_of_many_points_is_that_of_numpy() -> None:
    low, high = bounding_box(POINTS)
    np.testing.assert_array_equal(low, POINTS.min(axis=0))
    np.testing.assert_array_equal(high, POINTS.max(axis=0))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_bad_value_among_many_is_found(value: float) -> None:
    points = POINTS.copy()
    points[140_000, 1] = value
    with pytest.raises(PdflowError, match="row 140000"):
        finite_points(points)


def test_no_points_are_finite() -> None:
    assert finite_points(np.empty((0, 3))).shape == (0, 3)
