"""Refuse a LAS file whose header and points disagree, before any point is read.

lazrs trusts the sizes of compressed chunks in the file: a damaged count could make it ask for more
memory than there is, and a count that is too small would silently lose points.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.io.damage import explain_damage
from pdflow.io.las.codec import LARGE_CHUNK, laszip_vlr, lazrs_module, new_decoder
from pdflow.io.las.header import LasHeader
from pdflow.io.las.layout import record_dtype

_SLACK = 8
"""Bytes that an encoder may leave after its last point."""

_LAYERS = {6: 9, 7: 10, 8: 11, 9: 10, 10: 12}
"""Point format -> layers of a compressed chunk; each extra byte adds one."""


def check_points(file: BinaryIO, header: LasHeader, path: Path) -> None:
    """Compare the number of points in the header with those in the file."""
    size = os.fstat(file.fileno()).st_size
    if not header.compressed:
        _check_plain(header, size, path)
    elif header.count:
        with explain_damage(path, "its compressed points are damaged"):
            _check_compressed(file, header, size, path)


def _check_plain(header: LasHeader, size: int, path: Path) -> None:
    starts = (header.evlr_start if header.evlrs else 0, header.waveform_start, size)
    room = min(s for s in starts if s >= header.point_offset) - header.point_offset
    left = room - header.count * header.record_length
    # Some software leaves a few bytes after the points, but never exactly whole points.
    if left < 0 or (left > 0 and left % header.record_length == 0):
        raise PdflowError(
            f"{path}: the header promises {header.count} points, but there is room for "
            f"{room // header.record_length}: it is truncated or damaged, fetch it again."
        )


def _check_compressed(file: BinaryIO, header: LasHeader, size: int, path: Path) -> None:
    """Compare the table of chunks with the size of the file and the number of points."""
    lazrs = lazrs_module("Reading LAZ")
    recipe = lazrs.LazVlr(laszip_vlr(header, path))
    if recipe.item_size() != header.record_length or recipe.chunk_size() == 0:
        raise PdflowError(
            f"{path}: its header and its compressor disagree on the size of a point: it is damaged."
        )
    table = _find_table(file, header, size, path)
    file.seek(header.point_offset)
    chunks = np.array(lazrs.read_chunk_table(file, recipe), np.float64).reshape(-1, 2)
    if chunks[:, 1].sum() > table - header.point_offset - 8:
        raise _false_table(path)
    _check_layers(file, header, chunks[:, 1], path)
    if recipe.uses_variable_size_chunks():
        right = chunks[:, 0].sum() == header.count
    else:
        first = (len(chunks) - 1) * recipe.chunk_size()
        right = 0 < header.count - first <= recipe.chunk_size()
        if right and recipe.chunk_size() <= LARGE_CHUNK:
            start = header.point_offset + 8 + int(chunks[:-1, 1].sum())
            right = _last_chunk_ends(file, header, path, first, start, table)
    if not right:
        raise PdflowError(
            f"{path}: the header promises {header.count} points, but the compressed chunks hold "
            "another number: it is damaged, fetch it again."
        )


def _find_table(file: BinaryIO, header: LasHeader, size: int, path: Path) -> int:
    """The first byte of the table of chunks, if its length is plausible."""
    file.seek(header.point_offset)
    (table,) = struct.unpack("<q", file.read(8))
    if table == -1:  # written to a stream without seeking: then the position comes last
        file.seek(size - 8)
        (table,) = struct.unpack("<q", file.read(8))
    if not header.point_offset + 8 <= table <= size - 8:
        raise _false_table(path)
    file.seek(table)
    _, count = struct.unpack("<II", file.read(8))
    # Each chunk begins with one whole point.
    if not 0 < count <= (table - header.point_offset) // header.record_length:
        raise _false_table(path)
    return int(table)


def _check_layers(
    file: BinaryIO, header: LasHeader, chunk_bytes: NDArray[np.float64], path: Path
) -> None:
    """Compare the sizes of layers with their chunk, because lazrs allocates memory for them."""
    if header.point_format not in _LAYERS:
        return
    standard = record_dtype(header.point_format, []).itemsize
    layers = _LAYERS[header.point_format] + header.record_length - standard
    head = header.record_length + 4 + 4 * layers  # the first point, the count, the sizes
    start = header.point_offset + 8
    for number, length in enumerate(chunk_bytes.astype(np.int64).tolist()):
        file.seek(start + header.record_length + 4)
        sizes = np.frombuffer(file.read(4 * layers), "<u4")
        if len(sizes) < layers or head + int(sizes.sum(dtype=np.int64)) > length:
            raise PdflowError(
                f"{path}: the layers of its compressed chunk {number} are larger than the chunk: "
                "it is damaged, fetch it again."
            )
        start += length


def _last_chunk_ends(
    file: BinaryIO, header: LasHeader, path: Path, first: int, start: int, table: int
) -> bool:
    """Whether the last chunk, from point `first` at byte `start`, holds all remaining points."""
    count = header.count - first
    if header.point_format >= 6:  # layered chunks store it after their first point
        file.seek(start + header.record_length)
        return struct.unpack("<I", file.read(4)) == (count,)
    file.seek(table)
    behind = file.read(8)
    decoder = new_decoder(file, header, path, parallel=False)
    decoder.seek(first)
    decoder.decompress_many(np.zeros(count * header.record_length, np.uint8))
    following = bytearray(min(_SLACK + 8, os.fstat(file.fileno()).st_size - table))
    decoder.read_raw_bytes_into(following)
    return behind in following


def _false_table(path: Any) -> PdflowError:
    return PdflowError(
        f"{path}: the table of its compressed points is missing or wrong: it is truncated or "
        "damaged, fetch it again."
    )
