"""The header of a LAS file and its variable length records, byte for byte (LAS 1.0 to 1.5).

Everything that does not follow from the points is kept, even unused bytes between header, records
and points, so that the writer can restore the same file.
"""

from __future__ import annotations

import os
import struct
import uuid
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError

SMALLEST_MINOR = (0, 0, 2, 2, 3, 3, 4, 4, 4, 4, 4)
"""Point format -> the first LAS version 1.x that knows it."""

LAST_MINOR = 5
LARGEST_VLR = 65535
WKT_BIT = 1 << 4
WAVEFORM_INSIDE_BIT = 1 << 1
LASZIP_VLR = ("laszip encoded", 22204)
EXTRA_BYTES_VLR = ("LASF_Spec", 4)
# The first is the standard's spelling; files have both.
WAVEFORM_EVLRS = (("LASF_Spec", 65535), ("LAS_Spec", 65535))
# The octree of a COPC file consists of byte offsets into this one file. It is an index and wrong in
# any other file, so the reader skips it.
COPC_RECORDS = (("copc", 1), ("copc", 1000))

_BASE = struct.Struct("<4sHH16sBB32s32sHHHIIBHI5I3d3d6d")  # 227 bytes, LAS 1.0 to 1.2
_WAVEFORM = struct.Struct("<Q")  # from 1.3
_LARGE = struct.Struct("<QIQ15Q")  # from 1.4
_VLR = struct.Struct("<H16sHH32s")
_EVLR = struct.Struct("<H16sHQ32s")
_COMPRESSED_BIT = 0x80
_FORMAT_BITS = 0x3F


@dataclass
class Vlr:
    """A variable length record; ids and descriptions that are not ASCII are bytes."""

    user_id: str | bytes
    record_id: int
    description: str | bytes
    data: bytes
    reserved: int = 0

    @property
    def key(self) -> tuple[str | bytes, int]:
        """The user and the record number, which identify the kind of record."""
        return self.user_id, self.record_id


@dataclass
class LasHeader:
    """Everything in a LAS file except its points; bounds and counts follow from these."""

    minor: int = 4
    point_format: int = 0
    record_length: int = 20
    compressed: bool = False
    scales: NDArray[np.float64] = field(default_factory=lambda: np.full(3, 1e-4))
    offsets: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    file_source_id: int = 0
    global_encoding: int = 0
    guid: bytes = bytes(16)
    system_identifier: str | bytes = ""
    generating_software: str | bytes = ""
    creation_day: int = 0
    creation_year: int = 0
    header_tail: bytes = b""
    vlr_tail: bytes = b""
    vlrs: list[Vlr] = field(default_factory=list)
    evlrs: list[Vlr] = field(default_factory=list)
    count: int = 0
    counts_by_return: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(15, np.uint64))
    low: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    high: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    point_offset: int = 0
    evlr_start: int = 0
    waveform_start: int = 0

    def find_vlr(self, key: tuple[str, int]) -> Vlr | None:
        """The first VLR of this kind, or None."""
        return next((v for v in self.vlrs if v.key == key), None)

    def as_metadata(self) -> dict[str, Any]:
        """What a writer needs to restore the same file, as plain types."""
        kept: dict[str, Any] = {
            "version": f"1.{self.minor}",
            "point_format": self.point_format,
            "scales": self.scales.tolist(),
            "offsets": self.offsets.tolist(),
            "guid": str(uuid.UUID(bytes_le=self.guid)),
        }
        for name in _PLAIN:
            kept[name] = getattr(self, name)
        for name in ("vlrs", "evlrs"):
            kept[name] = [asdict(v) for v in getattr(self, name)]
        return kept

    @staticmethod
    def from_metadata(kept: dict[str, Any]) -> LasHeader:
        """The header from `as_metadata`; missing entries get their defaults."""
        header = LasHeader(**{name: kept[name] for name in _PLAIN if name in kept})
        header.minor = int(str(kept.get("version", "1.4")).partition(".")[2])
        header.point_format = int(kept.get("point_format", 0))
        header.scales = np.array(kept.get("scales", header.scales), np.float64).reshape(3)
        header.offsets = np.array(kept.get("offsets", header.offsets), np.float64).reshape(3)
        header.guid = uuid.UUID(kept.get("guid", str(uuid.UUID(int=0)))).bytes_le
        header.vlrs = [Vlr(**v) for v in kept.get("vlrs", [])]
        header.evlrs = [Vlr(**v) for v in kept.get("evlrs", [])]
        _check_kept(header)
        return header


_PLAIN = (
    "file_source_id",
    "global_encoding",
    "system_identifier",
    "generating_software",
    "creation_day",
    "creation_year",
    "header_tail",
    "vlr_tail",
)


def read_header(file: BinaryIO, path: Path) -> LasHeader:
    """Header, VLRs and EVLRs of an open LAS or LAZ file; errors name `path`."""
    size = os.fstat(file.fileno()).st_size
    raw = file.read(_BASE.size)
    if raw[:4] != b"LASF":
        raise PdflowError(f"{path} is not a LAS or LAZ file: it does not begin with 'LASF'.")
    if len(raw) < _BASE.size:
        raise PdflowError(f"{path} ends inside its header: it is truncated, fetch it again.")
    (_, source, encoding, guid, major, minor, system, software, day, year, header_size) = (
        _BASE.unpack(raw)[:11]
    )
    point_offset, vlr_count, format_byte, record_length, count, *rest = _BASE.unpack(raw)[11:]
    by_return, frame = rest[:5], np.array(rest[5:], np.float64)
    known = _BASE.size + (_WAVEFORM.size if minor >= 3 else 0) + (_LARGE.size if minor >= 4 else 0)
    if major != 1 or minor > LAST_MINOR:
        raise PdflowError(f"{path} is LAS {major}.{minor}: pdflow reads 1.0 to 1.5 only.")
    if not known <= header_size <= point_offset <= size:
        raise PdflowError(
            f"{path}: the header promises points from byte {point_offset} of {size}: it is "
            "truncated or damaged, fetch it again."
        )
    header = LasHeader(
        minor=minor,
        point_format=format_byte & _FORMAT_BITS,
        record_length=record_length,
        compressed=bool(format_byte & _COMPRESSED_BIT),
        scales=frame[:3],
        offsets=frame[3:6],
        high=frame[6::2],
        low=frame[7::2],
        file_source_id=source,
        global_encoding=encoding,
        guid=guid,
        system_identifier=_text(system),
        generating_software=_text(software),
        creation_day=day,
        creation_year=year,
        count=count,
        counts_by_return=np.array(by_return + [0] * 10, np.uint64),
        point_offset=point_offset,
    )
    if header.point_format >= len(SMALLEST_MINOR):
        raise PdflowError(
            f"{path} has point format {header.point_format}: only 0 to 10 are defined."
        )
    if not (np.isfinite(frame[:6]).all() and header.scales.all()):
        raise PdflowError(f"{path}: its scales or offsets are invalid: the header is damaged.")
    evlr_count = 0
    if minor >= 3:
        (header.waveform_start,) = _WAVEFORM.unpack(file.read(_WAVEFORM.size))
    if minor >= 4:
        large = _LARGE.unpack(file.read(_LARGE.size))
        header.evlr_start, evlr_count, large_count, *by_return = large
        if large_count:
            header.count, header.counts_by_return = large_count, np.array(by_return, np.uint64)
    header.header_tail = file.read(header_size - known)
    _read_vlrs(file, path, header, vlr_count, point_offset - header_size)
    _read_evlrs(file, path, header, evlr_count, size)
    return header


def write_header(file: BinaryIO, header: LasHeader) -> None:
    """Write header and VLRs at the start of the file and set `point_offset`.

    It is called before the points and again after them, with the final counts and bounds; its
    length stays the same.
    """
    body = b"".join(_packed(_VLR, v) for v in header.vlrs)
    large = header.minor >= 4
    known = _BASE.size + (_WAVEFORM.size if header.minor >= 3 else 0) + large * _LARGE.size
    header_size = known + len(header.header_tail)
    header.point_offset = header_size + len(body) + len(header.vlr_tail)
    # From 1.4 on these 32-bit counts serve old readers, as long as these know the point format.
    small = header.count < 2**32 and (header.minor < 4 or header.point_format < 6)
    by_return = header.counts_by_return.tolist()
    head = _BASE.pack(
        b"LASF",
        header.file_source_id,
        header.global_encoding,
        header.guid,
        1,
        header.minor,
        _padded(header.system_identifier, 32),
        _padded(header.generating_software, 32),
        header.creation_day,
        header.creation_year,
        header_size,
        header.point_offset,
        len(header.vlrs),
        header.point_format | (_COMPRESSED_BIT if header.compressed else 0),
        header.record_length,
        header.count if small else 0,
        *(by_return[:5] if small else [0] * 5),
        *header.scales,
        *header.offsets,
        *np.stack([header.high, header.low], 1).ravel(),
    )
    if header.minor >= 3:
        head += _WAVEFORM.pack(header.waveform_start)
    if large:
        head += _LARGE.pack(header.evlr_start, len(header.evlrs), header.count, *by_return)
    file.seek(0)
    file.write(head + header.header_tail + body + header.vlr_tail)


def write_evlrs(file: BinaryIO, header: LasHeader) -> None:
    """Append the EVLRs after the points and set their offsets in the header, to be written next."""
    end = file.seek(0, os.SEEK_END)
    header.evlr_start = end if header.evlrs else 0
    header.waveform_start = 0
    for record in header.evlrs:
        if record.key in WAVEFORM_EVLRS:
            header.waveform_start = file.tell()
        file.write(_packed(_EVLR, record))


def _check_kept(header: LasHeader) -> None:
    """Raise if a header that somebody composed cannot be written."""
    if not 0 <= header.minor <= LAST_MINOR:
        raise ValueError(f"there is no LAS 1.{header.minor}")
    if not 0 <= header.point_format < len(SMALLEST_MINOR):
        raise ValueError(f"there is no point format {header.point_format}")
    if not (np.isfinite([header.scales, header.offsets]).all() and header.scales.all()):
        raise ValueError("its scales or offsets are invalid")
    if not all(isinstance(b, bytes) for b in (header.header_tail, header.vlr_tail)):
        raise TypeError("its unused bytes are no bytes")
    write_header(BytesIO(), replace(header, minor=LAST_MINOR, vlrs=[], evlrs=[]))
    for record in header.vlrs + header.evlrs:
        if not isinstance(record.data, bytes):
            raise TypeError(f"the data of record {record.record_id} are no bytes")
        _record_head(_EVLR, record)


def _read_vlrs(file: BinaryIO, path: Path, header: LasHeader, count: int, room: int) -> None:
    """Read the VLRs in the `room` bytes before the points."""
    block, place = file.read(room), 0
    for number in range(count):
        body = place + _VLR.size
        fields = _VLR.unpack_from(block, place) if body <= room else None
        if fields is None or body + fields[3] > room:
            raise PdflowError(
                f"{path}: VLR {number} of {count} runs into the points: the header is damaged."
            )
        reserved, user, record_id, length, description = fields
        place = body + length
        record = Vlr(_text(user), record_id, _text(description), block[body:place], reserved)
        if record.key not in COPC_RECORDS:
            header.vlrs.append(record)
    header.vlr_tail = block[place:]


def _read_evlrs(file: BinaryIO, path: Path, header: LasHeader, count: int, size: int) -> None:
    waveform = header.waveform_start if header.global_encoding & WAVEFORM_INSIDE_BIT else 0
    place = header.evlr_start
    for number in range(count):
        record, end = _read_evlr(file, path, place, size, f"EVLR {number} of {count}")
        if record is not None:
            header.evlrs.append(record)
        if place == waveform:
            waveform = 0
        place = end
    if waveform:  # LAS 1.3 has no list of EVLRs, only this one
        record, _ = _read_evlr(file, path, waveform, size, "the waveform record")
        header.evlrs.extend([record] if record is not None else [])


def _read_evlr(
    file: BinaryIO, path: Path, start: int, size: int, name: str
) -> tuple[Vlr | None, int]:
    """The record at byte `start`, or None for a COPC octree, and the byte after it."""
    body, fields = start + _EVLR.size, None
    if body <= size:
        file.seek(start)
        fields = _EVLR.unpack(file.read(_EVLR.size))
    if fields is None or body + fields[3] > size:
        raise PdflowError(
            f"{path}: {name} runs past the end of the file: it is truncated, fetch it again."
        )
    reserved, user, record_id, length, description = fields
    if (_text(user), record_id) in COPC_RECORDS:
        return None, body + length
    record = Vlr(_text(user), record_id, _text(description), file.read(length), reserved)
    return record, body + length


def _packed(layout: struct.Struct, record: Vlr) -> bytes:
    return _record_head(layout, record) + record.data


def _record_head(layout: struct.Struct, record: Vlr) -> bytes:
    return layout.pack(
        record.reserved,
        _padded(record.user_id, 16),
        record.record_id,
        len(record.data),
        _padded(record.description, 32),
    )


def _text(raw: bytes) -> str | bytes:
    """A zero-padded field as text, or as bytes if it is not ASCII, so that nothing is lost."""
    raw = raw.rstrip(b"\0")
    return raw.decode("ascii") if raw.isascii() else raw


def _padded(value: str | bytes, size: int) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return raw[:size].ljust(size, b"\0")
