"""LZF against hand-made streams, by round trip, and with damaged streams."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdflow.errors import PdflowError
from pdflow.io.pcd.lzf import MAX_EXPANSION, compress, decompress

HAND_MADE = [
    (b"\x00A", b"A"),
    (b"\x02abc", b"abc"),
    (b"\x02abc" + bytes([1 << 5, 2]), b"abcabc"),  # 3 bytes from 3 back
    (b"\x00x" + bytes([4 << 5, 0]), b"x" * 7),  # overlapping: 6 bytes from 1 back
    (b"\x01ab" + bytes([7 << 5, 0, 1]), b"ab" + b"ab" * 4 + b"a"),  # 9 bytes, long form
    (b"\x00z" + bytes([7 << 5, 255, 0]), b"z" * 265),  # the longest copy
    (
        b"\x1f" + bytes(range(32)) + b"\x00!" + bytes([1 << 5, 32]),
        bytes(range(32)) + b"!\x00\x01\x02",
    ),
    (
        b"".join(b"\x1f" + bytes([i]) * 32 for i in range(32)) + bytes([1 << 5 | 3, 255]),
        b"".join(bytes([i]) * 32 for i in range(32)) + b"\x00\x00\x00",
    ),  # from 1024 back
    (b"", b""),
]


@pytest.mark.parametrize(("stream", "data"), HAND_MADE)
def test_streams_made_by_hand(stream: bytes, data: bytes) -> None:
    assert decompress(stream, len(data)) == data


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.binary(max_size=9), st.integers(1, 400)), max_size=20))
def test_round_trip(parts: list[tuple[bytes, int]]) -> None:
    data = b"".join(word * times for word, times in parts)
    stream = compress(data)
    assert len(stream) <= len(data) + len(data) // 32 + 1
    assert decompress(stream, len(data)) == data


@pytest.mark.parametrize("period", [1, 2, 3, 263, 264, 265, 8190, 8191, 8192, 8193, 9000])
def test_repeats_at_every_kind_of_distance(period: int) -> None:
    word = np.random.default_rng(period).integers(0, 256, period, np.uint8).tobytes()
    data = (word * (30_000 // period + 2))[:30_001]
    stream = compress(data)
    assert decompress(stream, len(data)) == data
    assert (len(stream) < len(data)) == (period <= 8192)


def test_noise_grows_by_at_most_1_32() -> None:
    data = np.random.default_rng(0).integers(0, 256, 100_003, np.uint8)
    stream = compress(data)
    assert len(stream) <= len(data) * 33 // 32 + 1
    assert decompress(stream, len(data)) == data.tobytes()


@pytest.mark.parametrize(
    ("stream", "size"),
    [
        (b"\x02ab", 3),  # literals end early
        (b"\x00a" + bytes([1 << 5]), 4),  # no distance
        (b"\x00a" + bytes([7 << 5]), 10),  # no length
        (b"\x00a" + bytes([7 << 5, 3]), 10),
        (b"\x00a" + bytes([1 << 5, 1]), 4),  # from before the start
        (bytes([1 << 5, 0]), 3),
        (b"\x02abc", 2),  # more than promised
        (b"\x02abc", 4),  # less than promised
        (b"\x00a" + bytes([1 << 5, 0]), 3),
        (b"\x00a", -1),
        (b"", 1),
        (b"\x00a" * 5, MAX_EXPANSION * 10 + 1),  # refused before anything is allocated
        (b"\x00a" * 5, 10**15),
    ],
)
def test_malformed_streams_are_refused(stream: bytes, size: int) -> None:
    with pytest.raises(PdflowError, match="LZF data"):
        decompress(stream, size)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=60), st.integers(0, 3000))
def test_any_bytes_unpack_or_are_refused(stream: bytes, size: int) -> None:
    with contextlib.suppress(PdflowError):
        assert len(decompress(stream, size)) == size
