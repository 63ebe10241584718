"""Numbers as text and back: exact and short."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pdflow.io.tabular.rows import format_rows, parse_rows


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1), st.lists(st.floats(width=16), min_size=1))
def test_every_narrow_float_comes_back(singles: list[float], halves: list[float]) -> None:
    for values in (np.array(singles, np.float32), np.array(halves, np.float16)):
        lines = format_rows([values]).splitlines(keepends=True)
        (back,) = parse_rows(lines, [np.dtype(np.float64)], Path("a"), 1)
        np.testing.assert_array_equal(back.astype(values.dtype), values)


def test_narrow_floats_are_short(tmp_path: Path) -> None:
    values = np.array([0.1, 0.2, 1 / 3, 123456.7, -1e-7], np.float32)
    assert format_rows([values]).split() == ["0.1", "0.2", "0.33333334", "123456.7", "-1e-07"]
