"""Which dtypes hold which values exactly."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.io.exact import is_exact, storage_dtype

PLY_DTYPES = [np.dtype(t) for t in ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8")]


def test_is_exact_at_the_limits() -> None:
    assert is_exact(np.array([], np.int64), np.dtype("u1"))
    assert is_exact(np.array([np.nan, 0.5]), np.dtype("f2"))
    for name in ("i1", "u1", "i4", "u4"):
        limits = np.iinfo(name)
        assert is_exact(np.array([limits.min, limits.max], np.float64), np.dtype(name))
        assert not is_exact(np.array([limits.max + 1.0]), np.dtype(name))
    assert not is_exact(np.array([np.nan]), np.dtype("i8"))
    assert not is_exact(np.array([2.0**64]), np.dtype("u8"))
    assert not is_exact(np.array([1e300]), np.dtype("f4"))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 200], "u1"),
        ([-1, 100], "i1"),
        ([-1, 200], "i2"),
        ([0, 2**32 - 1], "u4"),
        ([-1, 2**32], "f4"),
        ([-1, 2**53 - 1], "f8"),
        ([2**60 + 256, 3], "f8"),
        ([2**53 + 1], None),
        ([2**63 - 1], None),
    ],
)
def test_narrowest_exact_dtype_of_int64(values: list[int], expected: str | None) -> None:
    found = storage_dtype(np.dtype(np.int64), PLY_DTYPES, np.array(values, np.int64))
    assert (found and found.str[1:]) == expected
