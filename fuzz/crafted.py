"""Crafted files: every number of every header replaced by every hostile value, one at a time.

Mutants hit a field by chance; here each field is named. The list is the same in every run. A
thousand of its files are chosen by a seed, as many of each kind as there are.
"""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Callable, Iterator
from functools import partial

from containers import (
    Change,
    change_e57,
    change_e57_xml,
    change_glb,
    change_metadata,
    change_npz,
    change_safetensors_header,
)
from mutants import TOKEN, WORDS
from targets import KINDS, seeds

HOSTILE = [0, 1, 2, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 10**9, 2**53, 2**63 - 1, 2**64 - 1]
FLOATS = [0.0, -1.0, 1e-300, 1e300, 1e308, float("nan"), float("inf"), -float("inf")]
Maker = Callable[[], bytes]
Way = Callable[[bytes, Change], bytes]
HEADER = 1600
"""Bytes at the start of a text file whose words are replaced."""

LAS_FIELDS = [
    *((place, "B") for place in (24, 25, 104)),
    *((place, "H") for place in (4, 6, 90, 92, 94, 105)),
    *((place, "I") for place in (96, 100, 107, 111, 115, 119, 123, 127, 243)),
    *((place, "d") for place in range(131, 227, 8)),
    *((place, "Q") for place in (227, 235, 247, 255)),
    *((place, "H") for place in (375, 375 + 18, 375 + 20)),
]
"""Fields of the header of LAS 1.4 and of its first record: place and type."""

E57_HEADER = [(8, "I"), (12, "I"), (16, "Q"), (24, "Q"), (32, "Q"), (40, "Q")]
STL_FIELDS = [(80, "I"), (84, "f"), (96, "f"), (132, "H"), (134, "f")]


def crafted(count: int, seed: int) -> list[tuple[str, bytes]]:
    """Kind and content of `count` crafted files."""
    rng = random.Random(seed)
    chosen = []
    for i, kind in enumerate(KINDS):
        makers = list(_makers(kind))
        rng.shuffle(makers)
        share = count // len(KINDS) + (i < count % len(KINDS))
        chosen += [(kind, make()) for make in makers[:share]]
    return chosen


def _makers(kind: str) -> Iterator[Maker]:
    """Functions that make the files of a kind."""
    for data in seeds(kind):
        if kind in ("las", "laz"):
            yield from _fields(data, LAS_FIELDS)
        elif kind == "e57":
            yield from _fields(data, E57_HEADER, change_e57)
            yield from _words(data, change_e57_xml)
        elif kind == "stl":
            yield from _fields(data, STL_FIELDS)
        elif kind == "npz":
            yield from _words(data, change_npz)
            yield from _zip_fields(data)
        elif kind == "glb":
            yield from _words(data, change_glb)
        elif kind in ("weights", "checkpoint"):
            yield from _words(data, change_metadata)
            yield from _words(data, change_safetensors_header)
        else:
            yield from _words(data, _change_all)


def _change_all(data: bytes, change: Change) -> bytes:
    return change(data)


def _fields(
    data: bytes, places: list[tuple[int, str]], within: Way = _change_all
) -> Iterator[Maker]:
    """Each binary field of a file replaced by each hostile number."""
    for place, code in places:
        for value in FLOATS if code in "fd" else HOSTILE:
            size = struct.calcsize(f"<{code}")
            packed = struct.pack("<d", value) if code == "d" else b""
            packed = struct.pack("<f", max(min(value, 3e38), -3e38)) if code == "f" else packed
            packed = packed or (int(value) % 256**size).to_bytes(size, "little")

            def put(content: bytes, place: int = place, packed: bytes = packed) -> bytes:
                return content[:place] + packed + content[place + len(packed) :]

            yield partial(within, data, put)


def _words(data: bytes, within: Way) -> Iterator[Maker]:
    """Each word of the texts in a file replaced by each hostile one."""
    texts: list[bytes] = []

    def collect(content: bytes) -> bytes:
        texts.append(content)
        return content

    within(data, collect)
    for which, content in enumerate(texts):
        for token in TOKEN.finditer(content[:HEADER]):
            for word in WORDS:
                changed = content[: token.start()] + word + content[token.end() :]
                yield partial(_replace_text, data, within, which, changed)


def _replace_text(data: bytes, within: Way, which: int, new: bytes) -> bytes:
    turns = itertools.count()
    return within(data, lambda old: new if next(turns) == which else old)


def _zip_fields(data: bytes) -> Iterator[Maker]:
    """Sizes, methods, flags and places in the directory of an archive."""
    for mark, places in ((b"PK\3\4", (6, 8, 18, 22, 26, 28)), (b"PK\1\2", (8, 10, 20, 24, 28, 42))):
        start = data.index(mark)
        yield from _fields(data, [(start + place, "H" if place < 18 else "I") for place in places])
    end = data.rindex(b"PK\5\6")
    yield from _fields(data, [(end + 8, "H"), (end + 10, "H"), (end + 12, "I"), (end + 16, "I")])
