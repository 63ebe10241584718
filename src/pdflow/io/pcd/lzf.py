"""LZF, the compression of binary_compressed PCD, as compiled loops.

A stream is a sequence of runs. Each starts with a control byte c:

    c < 32      c + 1 literal bytes follow
    c >= 32     a copy of c >> 5 (if that is 7: plus the next byte) plus 2 bytes, starting
                ((c & 31) << 8) + the next byte + 1 bytes back in the output

The first call imports numba; the compiled loops are kept on disk.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError

Bytes = NDArray[np.uint8]

MAX_LITERAL = 32
MAX_COPY = 264
MAX_DISTANCE = 8192
MAX_EXPANSION = 88
"""A stream never expands by more than this factor (3 bytes give 264 at most)."""

HASH_BITS = 16


def compress(data: bytes | Bytes) -> bytes:
    """Compress bytes to an LZF stream, which is at most 1/32 longer.

    >>> packed = compress(b"point cloud " * 100)
    >>> len(packed) < 40, decompress(packed, 1200) == b"point cloud " * 100
    (True, True)
    """
    source = np.frombuffer(data, np.uint8)
    target = np.empty(len(source) + len(source) // MAX_LITERAL + 1, np.uint8)
    size = _compiled(_compress)(source, target)
    return target[:size].tobytes()


def decompress(stream: bytes | Bytes, size: int) -> bytes:
    """The bytes in an LZF stream; PdflowError if they are not exactly `size`."""
    source = np.frombuffer(stream, np.uint8)
    if not 0 <= size <= MAX_EXPANSION * len(source):
        raise PdflowError(f"{len(source)} bytes of LZF data cannot hold {size} bytes.")
    target = np.empty(size, np.uint8)
    if _compiled(_decompress)(source, target) != size:
        raise PdflowError(f"The LZF data do not unpack to {size} bytes: they are damaged.")
    return target.tobytes()


@functools.cache
def _compiled(function: Callable[[Bytes, Bytes], int]) -> Callable[[Bytes, Bytes], int]:
    from pdflow.compiled import compiled  # loads numba

    return compiled(function)


def _compress(source: Bytes, target: Bytes) -> int:
    """Fill `target` with runs and return the number of bytes used.

    Greedy: the only candidate for a copy is the last position with the same three-byte hash.
    """
    places = np.full(1 << HASH_BITS, -1, np.int64)
    n = len(source)
    used = 0
    literals = 0  # start of the literal bytes not yet written
    place = 0
    while place < n:
        length = 0
        distance = 0
        if place + 2 < n:
            word = (
                np.uint32(source[place])
                | np.uint32(source[place + 1]) << np.uint32(8)
                | np.uint32(source[place + 2]) << np.uint32(16)
            )
            # Multiplicative hashing: the high bits of the product depend on all three bytes.
            slot = ((word * np.uint32(2654435761)) & np.uint32(0xFFFFFFFF)) >> np.uint32(
                32 - HASH_BITS
            )
            candidate = places[slot]
            places[slot] = place
            distance = place - candidate
            if candidate >= 0 and distance <= MAX_DISTANCE:
                limit = min(MAX_COPY, n - place)
                while length < limit and source[candidate + length] == source[place + length]:
                    length += 1
        is_copy = length > 2
        end = place if is_copy else place + 1
        if end > literals and (is_copy or end - literals == MAX_LITERAL or end == n):
            target[used] = end - literals - 1
            used += 1
            for i in range(literals, end):
                target[used] = source[i]
                used += 1
            literals = end
        place = end
        if is_copy:
            high = (distance - 1) >> 8
            if length < 9:
                target[used] = (length - 2) << 5 | high
                used += 1
            else:
                target[used] = 7 << 5 | high
                target[used + 1] = length - 9
                used += 2
            target[used] = (distance - 1) & 255
            used += 1
            place += length
            literals = place
    return used


def _decompress(source: Bytes, target: Bytes) -> int:
    """Fill `target` from the runs and return the number of bytes, or -1 on damage."""
    n = len(source)
    size = len(target)
    place = 0
    used = 0
    while place < n:
        control = np.int64(source[place])
        place += 1
        if control < 32:
            length = control + 1
            if place + length > n or used + length > size:
                return -1
            for _ in range(length):
                target[used] = source[place]
                used += 1
                place += 1
        else:
            length = control >> 5
            if length == 7:
                if place >= n:
                    return -1
                length += np.int64(source[place])
                place += 1
            if place >= n:
                return -1
            start = used - ((control & 31) << 8) - np.int64(source[place]) - 1
            place += 1
            length += 2
            if start < 0 or used + length > size:
                return -1
            for _ in range(length):  # byte by byte: a copy may overlap its own output
                target[used] = target[start]
                used += 1
                start += 1
    return used
