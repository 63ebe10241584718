"""Comment lines that hold metadata: folded, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pdflow.io.comments import decode_comments, encode_comments

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.text(min_size=1, max_size=5), json_values, max_size=3),
    st.lists(st.text(), max_size=3),
    st.sampled_from([None, 40, 200]),
)
def test_metadata_survives_comment_lines(
    metadata: dict[str, Any], comments: list[str], width: int | None
) -> None:
    metadata = {**metadata, "comments": comments}
    lines, losses = encode_comments(metadata, width)
    lost = {key for key in metadata if f"metadata {key!r}" in losses}
    assert len(lost) == len(losses)
    assert all("\n" not in line and "\r" not in line for line in lines)
    assert width is None or all(len(line.encode()) <= width for line in lines)
    assert decode_comments(lines) == {k: v for k, v in metadata.items() if k not in lost}


def test_metadata_of_arrays_and_bytes_survives_folding() -> None:
    metadata = {"las": {"vlr": bytes(range(256)) * 20, "grid": np.arange(100.0).reshape(4, 25)}}
    lines, losses = encode_comments(metadata, width=100)
    assert losses == []
    assert max(map(len, lines)) <= 100
    back = decode_comments(lines)
    assert back["las"]["vlr"] == metadata["las"]["vlr"]
    np.testing.assert_array_equal(back["las"]["grid"], metadata["las"]["grid"])


def test_metadata_that_cannot_be_encoded_is_named() -> None:
    metadata = {"two words": 1, "object": {1, 2}, "array": np.array([None])}
    lines, losses = encode_comments(metadata)
    assert decode_comments(lines) == {"two words": 1}
    assert losses == ["metadata 'object'", "metadata 'array'"]
