"""Metadata as lines of ASCII and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pdflow.io.metadata import decode_metadata, encode_metadata

ARRAYS = hnp.arrays(
    dtype=st.one_of(
        hnp.scalar_dtypes(),
        hnp.unicode_string_dtypes(min_len=1, max_len=4),
        hnp.byte_string_dtypes(min_len=1, max_len=4),
    ),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
VALUES = st.recursive(
    LEAVES | ARRAYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def same(a: Any, b: Any) -> bool:
    """Equality, with dtypes and every bit of an array."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_metadata_comes_back_from_lines_of_ascii(metadata: dict[str, Any]) -> None:
    lines = encode_metadata(metadata)
    assert all(line.isascii() and line.isprintable() for line in lines)
    back, comments = decode_metadata(lines)
    assert same(back, metadata)
    assert comments == []


def test_structured_arrays_come_back_with_their_padding() -> None:
    inner = np.dtype([("q", "u1"), ("r", "<f4", (2, 2))])
    dtype = np.dtype([("a", "i1"), ("b", ">f8"), ("c", inner)], align=True)
    array = np.ones(2, dtype)
    back, _ = decode_metadata(encode_metadata({"a": array}))
    assert back["a"].dtype == dtype
    assert (back["a"] == array).all()


def test_numpy_scalars_become_plain_numbers() -> None:
    back, _ = decode_metadata(encode_metadata({"a": [np.float32(0.5), np.int8(3), np.True_]}))
    assert back == {"a": [0.5, 3, True]}


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, 1j, {1: 2}, np.array([None]), [np.array([{}])]]
)
def test_values_without_encoding_are_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        encode_metadata({"key": value})


@pytest.mark.parametrize(
    "line",
    [
        "scanned on Monday",
        "pdflow",
        "pdflow is nice",
        "pdflow key",
        "pdflow key {",
        'pdflow "key 1',
        'pdflow key {"!bytes": 3}',
        'pdflow key {"!bytes": "a"}',
        'pdflow key {"!array": "", "dtype": "no", "shape": []}',
        'pdflow key {"!array": "AAAA", "dtype": "<f4", "shape": [1]}',
        'pdflow key {"!array": "AAAA", "dtype": "|O", "shape": [1]}',
        'pdflow key {"!array": "", "dtype": "<f4", "shape": [1000000000000000000000, 0]}',
        'pdflow key {"!array": "", "dtype": [[]], "shape": [0]}',
        'pdflow key {"!array": ""}',
        "pdflow key " + "[" * 100_000,
    ],
)
def test_lines_without_metadata_stay_comments(line: str) -> None:
    assert decode_metadata([line]) == ({}, [line])
