"""Files made by hand and comparison of metadata, shared by the tests of PLY."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def assert_same_tree(left: Any, right: Any) -> None:
    """Equal nested dicts; arrays with equal dtypes and values."""
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    elif isinstance(left, dict):
        assert set(left) == set(right)
        for key in left:
            assert_same_tree(left[key], right[key])
    else:
        assert left == right


@pytest.fixture
def same_tree() -> Callable[[Any, Any], None]:
    """Asserts that two trees of metadata agree exactly."""
    return assert_same_tree


@pytest.fixture
def ply_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a PLY file with a header, and with rows as text or bytes, and gives its path."""

    def write(text: str, data: bytes = b"") -> Path:
        (tmp_path / "a.ply").write_bytes(text.encode() + data)
        return tmp_path / "a.ply"

    return write
