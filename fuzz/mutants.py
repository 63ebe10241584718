"""Random mutants of the corpus: each is decided by a seed, a kind and a number alone."""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Callable

from containers import CONTAINERS
from targets import seeds

NUMBERS = [0, 1, 2, 7, 127, 128, 255, 256, 32767, 65535, 65536, 10**6, 2**31 - 1, 2**31]
NUMBERS += [2**32 - 1, 2**32, 10**9, 10**12, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
WORDS = [str(n).encode() for n in NUMBERS] + [
    *(b"-1", b"-0", b"1e400", b"-1e308", b"1e-400", b"nan", b"inf", b"-inf", b"0x10", b"1_0"),
    *(b"", b"\0", b"\n", b'"', b"'", b"{}", b"[]", b"null", b"true", b"-", b".", b",", b"\xff"),
    *("٣".encode(), b"A" * 300, b"9" * 400, b"[" * 200, b"<a>", b"list", b"float", b"uchar"),
]
TOKEN = re.compile(rb"[-+.\w]+")


def mutant(kind: str, seed: int, number: int) -> bytes:
    """The mutant of this number."""
    rng = random.Random(f"{seed} {kind} {number}")
    corpus = seeds(kind)
    data = rng.choice(corpus)

    def change(content: bytes) -> bytes:
        for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
            content = rng.choice(MUTATIONS)(rng, content, rng.choice(corpus))
        return content

    ways = CONTAINERS.get(kind, [])
    if ways and rng.random() < 0.7:
        return rng.choice(ways)(data, change)
    return change(data)


def _place(rng: random.Random, data: bytes) -> int:
    """A place in the file; its head, where most is decided, in half of the cases."""
    return rng.randrange(min(len(data), rng.choice([64, 512, 1 << 30]))) if data else 0


def _flip(rng: random.Random, data: bytes, other: bytes) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(rng.choice([1, 1, 2, 8])):
        changed[_place(rng, changed)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _byte(rng: random.Random, data: bytes, other: bytes) -> bytes:
    place = _place(rng, data)
    return data[:place] + bytes([rng.choice([0, 1, 127, 128, 255, 10, 32])]) + data[place + 1 :]


def _number(rng: random.Random, data: bytes, other: bytes) -> bytes:
    code = rng.choice("bhiqfd")
    order = rng.choice("<>")
    value = rng.choice(NUMBERS) * rng.choice([1, 1, -1])
    if code in "fd":
        packed = struct.pack(order + code, rng.choice([0.0, -1.0, 1e30, float("nan"), 1e-40]))
    else:
        size = struct.calcsize(code)
        packed = (value % 256**size).to_bytes(size, "little" if order == "<" else "big")
    place = _place(rng, data)
    return data[:place] + packed + data[place + len(packed) :]


def _cut(rng: random.Random, data: bytes, other: bytes) -> bytes:
    start = _place(rng, data)
    return data[:start] + data[start + rng.choice([1, 2, 4, 8, 100, 10**9]) :]


def _repeat(rng: random.Random, data: bytes, other: bytes) -> bytes:
    start = _place(rng, data)
    end = start + rng.choice([1, 4, 16, 200])
    return data[:end] + data[start:end] * rng.choice([1, 2, 50]) + data[end:]


def _splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: _place(rng, data)] + other[_place(rng, other) :]


def _swap_token(rng: random.Random, data: bytes, other: bytes) -> bytes:
    tokens = list(TOKEN.finditer(data[:4096]))
    if not tokens:
        return _flip(rng, data, other)
    token = rng.choice(tokens)
    word = rng.choice([*WORDS, rng.choice(tokens)[0]])
    return data[: token.start()] + word + data[token.end() :]


def _lines(rng: random.Random, data: bytes, other: bytes) -> bytes:
    lines = data.split(b"\n")
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    action = rng.randrange(3)
    if action == 0:
        del lines[first]
    elif action == 1:
        lines.insert(first, lines[second])
    else:
        lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join(lines)


def _insert(rng: random.Random, data: bytes, other: bytes) -> bytes:
    place = _place(rng, data)
    return data[:place] + rng.choice(WORDS) + data[place:]


MUTATIONS: list[Callable[[random.Random, bytes, bytes], bytes]] = [
    _flip,
    _byte,
    _number,
    _number,
    _cut,
    _repeat,
    _splice,
    _swap_token,
    _swap_token,
    _lines,
    _insert,
]


def fingerprint(data: bytes) -> str:
    """A short name of a file, for the list of those that broke something."""
    return f"{zlib.crc32(data):08x}"
