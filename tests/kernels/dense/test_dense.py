from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pdflow.kernels.dense import Dense


def layers(widths: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(sum(widths))
    shapes = pairwise(widths)
    return [(rng.normal(size=(a, b)) / a**0.5, rng.normal(size=b)) for a, b in shapes]


@pytest.mark.parametrize("widths", [(3, 5), (1, 1), (18, 64, 64, 17), (100, 33, 32, 200)])
@pytest.mark.parametrize("rows", [1, 8, 31, 100])
def test_equals_products_in_float64(widths: tuple[int, ...], rows: int) -> None:
    x = np.random.default_rng(rows).normal(size=(rows, widths[0])).astype(np.float32)
    expected = x.astype(np.float64)
    for i, (weight, bias) in enumerate(layers(widths)):
        expected = (expected if i == 0 else np.maximum(expected, 0)) @ weight + bias
    result = Dense(layers(widths))(x)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_reads_columns_from_an_offset() -> None:
    x = np.random.default_rng(0).normal(size=(9, 12)).astype(np.float32)
    run = Dense(layers((4, 6, 2)))
    assert np.array_equal(run(x, 5), run(np.ascontiguousarray(x[:, 5:9])))


def test_a_row_does_not_depend_on_the_others() -> None:
    x = np.random.default_rng(0).normal(size=(70, 4)).astype(np.float32)
    run = Dense(layers((4, 6, 2)))
    assert np.array_equal(run(x)[40:43], run(x[40:43]))


def test_nan_is_not_hidden() -> None:
    x = np.full((1, 4), np.nan, np.float32)
    assert np.isnan(Dense(layers((4, 6, 2)))(x)).all()


def test_no_rows() -> None:
    assert Dense(layers((4, 6, 2)))(np.empty((0, 4), np.float32)).shape == (0, 2)
