from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pdflow.adapters.array import ArrayAdapter, as_numbers
from pdflow.errors import PdflowError

KEPT, SHIFT = [4, 0, 2, 2], np.array([1, 0, 0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int16, np.bool_])
def test_floats_keep_their_type(dtype: Any, points: np.ndarray, passed: Callable[..., Any]) -> None:
    given = points.astype(dtype)
    clean = passed(given)
    assert clean.dtype == (dtype if issubclass(dtype, np.floating) else np.float64)
    assert clean == pytest.approx(given.astype(np.float64) + SHIFT, abs=2e-3)


def test_other_columns_follow_their_points(points: np.ndarray, passed: Callable[..., Any]) -> None:
    given = np.column_stack([points, np.arange(50), np.full(50, np.nan)]).astype(np.float32)
    before = given.copy()
    clean = passed(given, rows=KEPT)
    assert clean.shape == (4, 5)
    assert clean[:, 3].tolist() == KEPT
    assert np.isnan(clean[:, 4]).all()
    assert np.array_equal(clean[:, :3], (given[KEPT, :3] + SHIFT).astype(np.float32))
    assert np.array_equal(given, before, equal_nan=True)


def test_added_values_have_the_type_of_the_points() -> None:
    adapter = ArrayAdapter(np.zeros((2, 3), np.float32))
    assert adapter.column(np.zeros((2, 3))).dtype == np.float32
    assert adapter.column(np.zeros(2, np.uint8)).dtype == np.uint8


@pytest.mark.parametrize("shape", [(5,), (5, 2), (2, 2, 5, 3)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(PdflowError, match=r"shape \(.+\): give one row per point"):
        ArrayAdapter(np.zeros(shape)).read()


def test_points_must_be_numbers() -> None:
    assert as_numbers([[1, 2, 3]]).dtype.kind == "i"
    assert as_numbers(np.array([[1, 2.5, 3]], dtype=object)).dtype == np.float64
    for wrong in (["a", "b", "c"], [[1, 2], [3]], object()):
        with pytest.raises(PdflowError, match="are no numbers"):
            as_numbers(wrong)
