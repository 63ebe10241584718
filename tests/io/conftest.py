"""Comparison of clouds, shared by the tests of single formats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdflow import PointCloud


def assert_same_attributes(a: PointCloud, b: PointCloud) -> None:
    """Equal names in equal order, equal dtypes and shapes, and equal values (NaN is NaN)."""
    np.testing.assert_array_equal(a.points, b.points)
    assert list(a.attributes) == list(b.attributes)
    for name, values in a.attributes.items():
        other = b.attributes[name]
        assert (values.dtype, values.shape) == (other.dtype, other.shape), name
        np.testing.assert_array_equal(values, other, err_msg=name)


@pytest.fixture
def same_attributes() -> Callable[[PointCloud, PointCloud], None]:
    """Asserts that two clouds agree in points and attributes, exactly."""
    return assert_same_attributes
