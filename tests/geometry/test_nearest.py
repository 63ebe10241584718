"""Selecting and sorting pairs of squared distances and rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pdflow.geometry.nearest import select_nearest, sort_pairs

RNG = np.random.default_rng(0)
CASES = {
    "uniform": RNG.random(300),
    "in one bucket": np.append(1e-9 * RNG.random(299), 1.0),
    "ties": RNG.integers(0, 4, 300).astype(float),
    "all equal": np.full(300, 2.0),
    "zeros": np.zeros(300),
    "tiny": np.arange(300) * 5e-324,
    "huge": RNG.random(300) * 1e302,
    "infinite": np.where(RNG.random(300) < 0.5, np.inf, RNG.random(300)),
}


@pytest.mark.parametrize("name", CASES)
def test_pairs_are_sorted_with_ties_by_row(name: str) -> None:
    sq, row = CASES[name], RNG.permutation(300)
    order = np.lexsort((row, sq))
    found_sq, found_row = np.empty(300), np.empty(300, np.int64)
    sort_pairs(sq, row, np.empty(301, np.int64), found_sq, found_row)
    np.testing.assert_array_equal(found_sq, sq[order])
    np.testing.assert_array_equal(found_row, row[order])


@pytest.mark.parametrize("k", [1, 2, 150, 299])
@pytest.mark.parametrize("name", CASES)
def test_the_nearest_come_first(name: str, k: int) -> None:
    sq, row = CASES[name].copy(), RNG.permutation(300)
    wanted = _pairs(sq, row)[:k]
    select_nearest(sq, row, k)
    assert _pairs(sq[:k], row[:k]) == wanted


def test_equal_pairs_are_selected() -> None:
    """Points that a subset leaves out lie at infinity and may share a row."""
    sq, row = np.array([np.inf] * 50 + [1.0, 2.0]), np.array([7] * 50 + [3, 4])
    select_nearest(sq, row, 2)
    assert _pairs(sq[:2], row[:2]) == [(1.0, 3), (2.0, 4)]


def _pairs(sq: NDArray[np.float64], row: NDArray[np.int64]) -> list[tuple[float, int]]:
    return sorted(zip(sq.tolist(), row.tolist(), strict=True))
