"""Where each attribute lives in a LAS point record: standard dimensions and extra bytes.

A `Dimension` belongs to LAS: a field of the record, some bits of one, or extra bytes. A `Column`
belongs to the cloud: an attribute, stored in one or several dimensions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.io.comments import decode_text
from pdflow.io.stream import Field
from pdflow.io.tabular.columns import COLORS
from pdflow.io.tabular.plain_types import PLAIN_TYPES, from_plain, to_plain

UNDOCUMENTED = "ExtraBytes"
"""Attribute for bytes at the end of each record without a descriptor."""

DESCRIPTOR = struct.Struct("<HBB32s4s24s24s24s24s24s32s")
"""One extra bytes dimension: 192 bytes with type, options, name, ..., scale, offset, text."""

_START = [("X", "<i4"), ("Y", "<i4"), ("Z", "<i4"), ("intensity", "<u2"), ("returns", "u1")]
_OLD = [
    *_START,
    ("classes", "u1"),
    ("scan_angle_rank", "i1"),
    ("user_data", "u1"),
    ("point_source_id", "<u2"),
]
_NEW = [
    *_START,
    ("flags", "u1"),
    ("classification", "u1"),
    ("user_data", "u1"),
    ("scan_angle", "<i2"),
    ("point_source_id", "<u2"),
    ("gps_time", "<f8"),
]
_TIME = [("gps_time", "<f8")]
_RGB = [(name, "<u2") for name in COLORS]
_NIR = [("nir", "<u2")]
_WAVE = [
    ("wavepacket_index", "u1"),
    ("wavepacket_offset", "<u8"),
    ("wavepacket_size", "<u4"),
    ("return_point_wave_location", "<f4"),
    ("x_t", "<f4"),
    ("y_t", "<f4"),
    ("z_t", "<f4"),
]
_RECORDS = (
    _OLD,
    _OLD + _TIME,
    _OLD + _RGB,
    _OLD + _TIME + _RGB,
    _OLD + _TIME + _WAVE,
    _OLD + _TIME + _RGB + _WAVE,
    _NEW,
    _NEW + _RGB,
    _NEW + _RGB + _NIR,
    _NEW + _WAVE,
    _NEW + _RGB + _NIR + _WAVE,
)
# Packed field -> its dimensions from the lowest bit up, and their number of bits.
_OLD_BITS = {
    "returns": {
        "return_number": 3,
        "number_of_returns": 3,
        "scan_direction_flag": 1,
        "edge_of_flight_line": 1,
    },
    "classes": {"classification": 5, "synthetic": 1, "key_point": 1, "withheld": 1},
}
_NEW_BITS = {
    "returns": {"return_number": 4, "number_of_returns": 4},
    "flags": {
        "synthetic": 1,
        "key_point": 1,
        "withheld": 1,
        "overlap": 1,
        "scanner_channel": 2,
        "scan_direction_flag": 1,
        "edge_of_flight_line": 1,
    },
}


@dataclass(frozen=True)
class Dimension:
    """One dimension of a point record.

    name    unique among the dimensions of a file
    kind    of its values
    field   of the record that holds it; `shift` and `bits` if it is only a part of that field
    raw     192-byte descriptor of an extra dimension
    """

    name: str
    kind: Field
    field: str
    shift: int = 0
    bits: int = 0
    extra: bool = False
    raw: bytes = b""

    @property
    def capacity(self) -> int:
        """Bits per value."""
        return self.bits or 8 * self.kind.dtype.itemsize

    def get(self, record: NDArray[Any]) -> NDArray[Any]:
        """Values (M,) or (M, W) of records (M,)."""
        values: NDArray[Any] = record[self.field]
        if self.bits:
            values = (values >> self.shift) & ((1 << self.bits) - 1)
        return values

    def set(self, record: NDArray[Any], values: NDArray[Any]) -> None:
        """Store values (M,) or (M, W) in records (M,) that are zero there."""
        if self.bits:
            record[self.field] |= values.astype(np.uint8) << self.shift
        else:
            record[self.field] = values


def standard_dimensions(point_format: int) -> dict[str, Dimension]:
    """The dimensions that a point format defines, by name."""
    packed = _OLD_BITS if point_format < 6 else _NEW_BITS
    found = {}
    for field, code in _RECORDS[point_format]:
        dtype, shift = np.dtype(code), 0
        if field not in packed:
            found[field] = Dimension(field, Field(dtype), field)
        for name, bits in packed.get(field, {}).items():
            found[name] = Dimension(name, Field(dtype), field, shift, bits)
            shift += bits
    return found


def reserved_names(point_format: int) -> set[str]:
    """Names that no extra dimension may have, because its attribute would hide another."""
    names = set(standard_dimensions(point_format))
    return names | {"colors"} if COLORS[0] in names else names


def record_dtype(point_format: int, extra: Iterable[Dimension]) -> np.dtype[Any]:
    """The dtype of one point record with these extra dimensions at its end."""
    fields: list[Any] = list(_RECORDS[point_format])
    for d in extra:
        shape = (d.kind.width,) if d.kind.width else ()
        fields.append((d.field, d.kind.dtype, shape))
    return np.dtype(fields)


def unique_name(name: str, taken: set[str], longest: int | None = None) -> str:
    """`name`, cut to `longest` bytes, and numbered if it is taken; adds it to `taken`.

    >>> taken = {"intensity"}
    >>> unique_name("intensity", taken), unique_name("intensity", taken)
    ('intensity_2', 'intensity_3')
    """
    base = name or "extra"
    candidate, number = base.encode()[:longest].decode(errors="ignore"), 1
    while candidate in taken:
        number += 1
        end = f"_{number}"
        room = None if longest is None else longest - len(end)
        candidate = base.encode()[:room].decode(errors="ignore") + end
    taken.add(candidate)
    return candidate


def extra_dimensions(point_format: int, descriptors: bytes, room: int) -> list[Dimension]:
    """The dimensions in the `room` extra bytes of each record.

    Bytes without a descriptor become one dimension `ExtraBytes`. Descriptors that do not fit in
    `room` are wrong, and this dimension covers all bytes.
    """
    taken = reserved_names(point_format)
    found: list[Dimension] = []
    left = room
    for start in range(0, len(descriptors) - DESCRIPTOR.size + 1, DESCRIPTOR.size):
        raw = descriptors[start : start + DESCRIPTOR.size]
        _, code, options, name, *_ = DESCRIPTOR.unpack(raw)
        if code == 0:
            dtype, width = np.dtype(np.uint8), options
        else:
            dtype, width = PLAIN_TYPES[(code - 1) % 10], (code - 1) // 10 + 1
        left -= dtype.itemsize * width
        if code > 30 or width == 0 or left < 0:
            found, left = [], room
            break
        label = unique_name(decode_text(name.partition(b"\0")[0]), taken)
        field = f"extra {len(found)}"
        found.append(Dimension(label, _kind(dtype, width), field, extra=True, raw=raw))
    if left:
        label = unique_name(UNDOCUMENTED, taken)
        kind = _kind(np.dtype(np.uint8), left)
        found.append(Dimension(label, kind, "undocumented", extra=True))
    return found


def new_descriptor(name: str, kind: Field) -> bytes:
    """The descriptor of an extra dimension of 1 to 3 values per point."""
    code = 1 + PLAIN_TYPES.index(kind.dtype) + 10 * (kind.columns - 1)
    return DESCRIPTOR.pack(0, code, 0, name.encode(), b"", b"", b"", b"", b"", b"", b"")


@dataclass(frozen=True)
class Column:
    """An attribute and the dimensions that hold it, in order."""

    name: str
    kind: Field
    dimensions: tuple[Dimension, ...]

    @property
    def standard(self) -> bool:
        """Whether a standard dimension of the point format holds it."""
        return not self.dimensions[0].extra

    def get(self, record: NDArray[Any]) -> NDArray[Any]:
        """The attribute's values (M,) or (M, W) from records (M,)."""
        parts = [d.get(record).reshape(len(record), -1) for d in self.dimensions]
        stored = np.concatenate(parts, axis=1)
        if not self.standard:
            return from_plain(stored, self.kind)
        values = stored >> 8 if self._narrow_colors else stored
        return (values if self.kind.width else values[:, 0]).astype(self.kind.dtype, copy=False)

    def set(self, record: NDArray[Any], values: NDArray[Any]) -> None:
        """Store the attribute's values in records (M,) that are zero there."""
        if not self.standard:
            flat = to_plain(values, self.kind.dtype)
        else:
            flat = values.reshape(len(record), -1)
            flat = flat.astype(np.uint16) << 8 if self._narrow_colors else flat
        start = 0
        for dimension in self.dimensions:
            part = flat[:, start : start + dimension.kind.columns]
            dimension.set(record, part if dimension.kind.width else part[:, 0])
            start += dimension.kind.columns

    @property
    def _narrow_colors(self) -> bool:
        # LAS stores 8-bit colours in the upper half of 16 bits, so that white stays white.
        return self.dimensions[0].name == COLORS[0] and self.kind.dtype.itemsize == 1


def default_columns(dimensions: Iterable[Dimension]) -> list[Column]:
    """One attribute per dimension, but `colors` for red, green and blue."""
    by_name = {d.name: d for d in dimensions if d.extra or d.name not in ("X", "Y", "Z")}
    columns = []
    rgb = tuple(by_name[c] for c in COLORS if c in by_name and not by_name[c].extra)
    if rgb:
        columns.append(Column("colors", Field(rgb[0].kind.dtype, 3), rgb))
    columns += [Column(d.name, d.kind, (d,)) for d in by_name.values() if d not in rgb]
    return columns


def _kind(dtype: np.dtype[Any], columns: int) -> Field:
    """The field with this many values per point; one value is (M,)."""
    return Field(dtype, columns if columns > 1 else 0)
