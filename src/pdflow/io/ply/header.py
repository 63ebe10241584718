"""The header of a PLY file: elements, their properties, comments; parsed and rendered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from pdflow.errors import PdflowError
from pdflow.io.comments import decode_text
from pdflow.io.tabular.columns import distinct_names

_OLDER = ("char", "uchar", "short", "ushort", "int", "uint", "float", "double")
_NEWER = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64")

TYPES = {
    name: np.dtype(newer)
    for names in (_OLDER, _NEWER)
    for name, newer in zip(names, _NEWER, strict=True)
}
"""Type names of both generations -> numpy dtype."""

TYPE_NAMES = {TYPES[name]: name for name in _OLDER}
"""numpy dtype -> the older type name, which every parser knows."""

ByteOrder = Literal["<", ">", "="]
BYTE_ORDERS: dict[str, ByteOrder] = {
    "ascii": "=",
    "binary_little_endian": "<",
    "binary_big_endian": ">",
}
"""Format name -> byte order of its numbers."""

LINE_LIMIT = 500
"""Longest comment to write; a widely used parser refuses lines of 1024 characters."""

_FILLER = "pdflow."
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True)
class Property:
    """A property: a scalar of `dtype`, or a list with a length of `count_dtype`."""

    name: str
    dtype: np.dtype[Any]
    count_dtype: np.dtype[Any] | None = None

    @property
    def is_list(self) -> bool:
        """Whether each row holds a list."""
        return self.count_dtype is not None


@dataclass(frozen=True)
class Element:
    """A table in the file: `count` rows with the same properties."""

    name: str
    count: int
    properties: tuple[Property, ...] = ()

    @property
    def has_lists(self) -> bool:
        """Whether rows may differ in size."""
        return any(p.is_list for p in self.properties)

    @property
    def row_bytes(self) -> int:
        """Bytes of a binary row; with lists, of the shortest possible row."""
        return sum((p.count_dtype or p.dtype).itemsize for p in self.properties)

    def row_dtype(self, order: ByteOrder) -> np.dtype[Any]:
        """The structured dtype of a row without lists, in a byte order."""
        return np.dtype([(p.name, p.dtype.newbyteorder(order)) for p in self.properties])


@dataclass
class PlyHeader:
    """Everything before the data, which begins after `lines` lines or `size` bytes."""

    format: str
    elements: list[Element]
    comments: list[str] = field(default_factory=list)
    obj_info: list[str] = field(default_factory=list)
    lines: int = 0
    size: int = 0

    @property
    def order(self) -> ByteOrder:
        """Byte order of the numbers, as numpy spells it."""
        return BYTE_ORDERS[self.format]

    def render(self, size: int = 0) -> bytes:
        """The header as bytes, padded to `size` bytes with empty comments."""
        top = ["ply", f"format {self.format} 1.0"]
        top += [f"comment {comment}" for comment in self.comments]
        top += [f"obj_info {info}" for info in self.obj_info]
        rest = []
        for element in self.elements:
            rest.append(f"element {element.name} {element.count}")
            for p in element.properties:
                name = f"{TYPE_NAMES[p.dtype]} {p.name}"
                if p.count_dtype is not None:
                    name = f"list {TYPE_NAMES[p.count_dtype]} {name}"
                rest.append(f"property {name}")
        rest.append("end_header")
        missing = size - len(_join([*top, *rest]))
        return _join([*top, *_fill(missing), *rest])


def reserve_bytes(header: PlyHeader) -> int:
    """Bytes that are enough for the header with any counts."""
    return len(header.render()) + 20 * len(header.elements) + len(f"comment {_FILLER}\n")


def parse_header(file: BinaryIO, path: Path) -> PlyHeader:
    """Parse the header of an open file and stop at the first byte of data."""
    header = PlyHeader("", [])
    names: list[tuple[str, int]] = []
    properties: list[list[Property]] = []
    for number, line in _lines(file, path):
        place = f"{path}, line {number}"
        keyword, *words = line.split() or [""]
        rest = line.lstrip()[len(keyword) + 1 :]
        if keyword == "format":
            header.format = _format(words, place)
        elif keyword == "comment":
            header.comments += [] if _is_filler(rest) else [rest]
        elif keyword == "obj_info":
            header.obj_info.append(rest)
        elif keyword == "element":
            names.append(_element(words, place))
            properties.append([])
        elif keyword == "property":
            if not names:
                raise PdflowError(f"{place}: a property before any element: repair the header.")
            properties[-1].append(_property(words, place))
        elif keyword == "end_header":
            header.lines = number
        elif keyword:
            raise PdflowError(f"{place}: {line[:40]!r} does not belong in a PLY header: repair it.")
    if not header.format:
        raise PdflowError(f"{path}: the PLY header names no format: add 'format ascii 1.0'.")
    header.size = file.tell()
    for name, (_, count), listed in zip(
        distinct_names([name for name, _ in names]), names, properties, strict=True
    ):
        header.elements.append(Element(name, count, _with_distinct_names(listed)))
    return header


def _lines(file: BinaryIO, path: Path) -> Iterator[tuple[int, str]]:
    """Header lines after the first with their numbers, without line ends, up to `end_header`."""
    start = file.read(5)
    if start[:3] != b"ply" or start[3:4] not in (b"\n", b"\r", b" ", b"\t"):
        raise PdflowError(f"{path} does not begin with 'ply': it is not a PLY file.")
    lone_return = start[3:4] == b"\r" and start[4:5] != b"\n"
    file.seek(0)
    number = 0
    while True:
        line = _read_to_return(file) if lone_return else file.readline(_LONGEST_LINE)
        number += 1
        if not line.endswith((b"\n", b"\r")) and line.strip() != b"end_header":
            if len(line) < _LONGEST_LINE:
                raise PdflowError(f"{path}: the PLY header has no 'end_header': it is truncated.")
            raise PdflowError(
                f"{path}, line {number}: too long for a PLY header, the file is damaged."
            )
        text = decode_text(line.rstrip(b"\r\n"))
        if number > 1:
            yield number, text
        if text.strip() == "end_header":
            return


def _read_to_return(file: BinaryIO) -> bytes:
    line = bytearray()
    while len(line) < _LONGEST_LINE and not line.endswith(b"\r"):
        byte = file.read(1)
        if not byte:
            break
        line += byte
    return bytes(line)


def _format(words: list[str], place: str) -> str:
    if not words or words[0] not in BYTE_ORDERS:
        raise PdflowError(
            f"{place}: unknown PLY format {' '.join(words)[:40]!r}: use one of "
            f"{', '.join(BYTE_ORDERS)}."
        )
    return words[0]


def _element(words: list[str], place: str) -> tuple[str, int]:
    count = words[-1] if words else ""
    if len(words) < 2 or not (count.isascii() and count.isdigit() and len(count) < 19):
        raise PdflowError(
            f"{place}: an element needs a name and a count, not {' '.join(words)[:40]!r}."
        )
    return "_".join(words[:-1]), int(count)


def _property(words: list[str], place: str) -> Property:
    is_list = words[:1] == ["list"]
    types, name = (words[1:3], words[3:]) if is_list else (words[:1], words[1:])
    for word in types:
        if word not in TYPES:
            raise PdflowError(
                f"{place}: unknown property type {word[:40]!r}: use one of {', '.join(TYPES)}."
            )
    if not name:
        raise PdflowError(f"{place}: a property needs a type and a name.")
    dtypes = [TYPES[word] for word in types]
    if is_list and dtypes[0].kind == "f":
        raise PdflowError(f"{place}: the length of a list must be a whole number.")
    return Property(" ".join(name), dtypes[-1], dtypes[0] if is_list else None)


def _with_distinct_names(properties: Sequence[Property]) -> tuple[Property, ...]:
    names = distinct_names([p.name for p in properties])
    return tuple(
        Property(name, p.dtype, p.count_dtype) for name, p in zip(names, properties, strict=True)
    )


def _fill(size: int) -> Iterator[str]:
    """Comment lines of `size` bytes in total, with line ends."""
    shortest = len(f"comment {_FILLER}\n")
    while size > 0:
        line = size if size <= LINE_LIMIT else min(LINE_LIMIT, size - shortest)
        yield f"comment {_FILLER}".ljust(line - 1, ".")
        size -= line


def _is_filler(comment: str) -> bool:
    return comment.startswith(_FILLER) and not comment[len(_FILLER) :].strip(".")


def _join(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
