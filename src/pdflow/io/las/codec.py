"""Point records in and out of a LAS file, plain or compressed (LAZ, by lazrs)."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.io.las.header import LASZIP_VLR, LasHeader, Vlr
from pdflow.io.las.layout import standard_dimensions
from pdflow.lazy import require
from pdflow.parallel import is_forked

ReadPoints = Callable[[int], NDArray[Any]]
"""Number of points -> the next records of the file."""

LARGE_CHUNK = 1_000_000
"""Larger compressed chunks (in points) are never held in memory as a whole."""


def lazrs_module(purpose: str) -> ModuleType:
    """The LAZ codec, or an error that names the extra to install."""
    return require("lazrs", extra="las", purpose=purpose)


def open_points(file: BinaryIO, header: LasHeader, dtype: np.dtype[Any], path: Any) -> ReadPoints:
    """A function that reads the points of an open file in order."""
    if header.count == 0:
        return lambda count: np.zeros(0, dtype)
    file.seek(header.point_offset)
    if header.compressed:
        return _open_compressed(file, header, dtype, path)

    def read(count: int) -> NDArray[Any]:
        records = np.zeros(count, dtype)
        if file.readinto(records.view(np.uint8)) < records.nbytes:  # type: ignore[attr-defined]
            raise PdflowError(f"{path} ends inside its points: it was truncated while being read.")
        return records

    return read


def laszip_vlr(header: LasHeader, path: Any) -> bytes:
    """The record that describes how the points of a file are compressed."""
    vlr = header.find_vlr(LASZIP_VLR)
    if vlr is None:
        raise PdflowError(f"{path}: the record of its compression is missing: it is damaged.")
    return vlr.data


def new_decoder(file: BinaryIO, header: LasHeader, path: Any, parallel: bool) -> Any:
    """A decoder at the first point.

    parallel  uses threads, except in a forked process: lazrs starts its threads once and would
              wait there for those of the parent
    """
    lazrs = lazrs_module("Reading LAZ")
    file.seek(header.point_offset)
    threads = parallel and not is_forked()
    decoder = lazrs.ParLasZipDecompressor if threads else lazrs.LasZipDecompressor
    everything = lazrs.DecompressionSelection(lazrs.SELECTIVE_DECOMPRESS_ALL)
    vlr = laszip_vlr(header, path)
    guarded = _Guarded(file, _longest_run(header, lazrs.LazVlr(vlr)))
    return decoder(guarded, vlr, everything)


def _open_compressed(
    file: BinaryIO, header: LasHeader, dtype: np.dtype[Any], path: Any
) -> ReadPoints:
    # The parallel decoder holds whole chunks in memory, so it is for chunks of moderate size.
    recipe = lazrs_module("Reading LAZ").LazVlr(laszip_vlr(header, path))
    small = recipe.uses_variable_size_chunks() or recipe.chunk_size() <= LARGE_CHUNK
    decoder = new_decoder(file, header, path, parallel=small)
    channels = _ScannerChannels(header.point_format)

    def read(count: int) -> NDArray[Any]:
        records = np.zeros(count, dtype)
        decoder.decompress_many(records.view(np.uint8))
        if channels.mixed(records):
            raise PdflowError(
                f"{path}: the LAZ codec cannot read waveforms of several scanner channels: convert "
                "it to .las with the software that made it."
            )
        return records

    return read


def _longest_run(header: LasHeader, recipe: Any) -> int:
    """The longest run of bytes 0xff in valid compressed points, with a margin.

    A coder writes 0xff while each symbol is the last of its alphabet. If all dimensions share one
    coder (formats below 6), such a run is short. If each byte has its own coder, a counter that
    runs down causes one: some 350 bytes until the coder has adapted, then one per 700 points.
    """
    if header.point_format < 6:
        return 128 + header.record_length
    points = LARGE_CHUNK // 2 if recipe.uses_variable_size_chunks() else recipe.chunk_size()
    return 512 + int(points) // 256


class _Guarded:
    """A file for lazrs that refuses impossibly long runs of 0xff.

    Erased storage contains them, and they make lazrs crash the whole process.
    """

    def __init__(self, file: BinaryIO, longest: int) -> None:
        self._file, self._run = file, b"\xff" * longest
        self.seek, self.tell, self.read = file.seek, file.tell, file.read
        self.write = file.write

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer and check the bytes."""
        count: int = self._file.readinto(buffer)  # type: ignore[attr-defined]
        if self._run in bytes(buffer):
            raise ValueError("a part of it is erased")
        return count


class _ScannerChannels:
    """Detects records that lazrs neither compresses nor decompresses correctly.

    These are waveforms in layered compression (formats 9 and 10) whose scanner channel changes.
    """

    def __init__(self, point_format: int) -> None:
        self._dimensions = standard_dimensions(point_format)
        self._seen: set[int] = set()
        self._waves = False
        self._watch = point_format >= 9

    def mixed(self, records: NDArray[Any]) -> bool:
        """Whether the records so far have waveforms and more than one channel."""
        if not self._watch:
            return False
        self._seen.update(np.unique(self._dimensions["scanner_channel"].get(records)).tolist())
        waves = ("wavepacket_index", "wavepacket_offset", "wavepacket_size")
        self._waves |= any(self._dimensions[w].get(records).any() for w in waves)
        return self._waves and len(self._seen) > 1


def add_laszip_vlr(header: LasHeader, extra_bytes: int) -> Any:
    """Mark the points of a header as compressed and return the recipe for `PointSink`."""
    lazrs = lazrs_module("Writing LAZ")
    recipe = lazrs.LazVlr.new_for_compression(header.point_format, extra_bytes)
    header.vlrs.append(Vlr(*LASZIP_VLR, "lazrs", bytes(recipe.record_data())))
    header.compressed = True
    return recipe


class PointSink:
    """Writes point records to the file, directly or through the compressor.

    file    open at the first byte of the points
    recipe  from `add_laszip_vlr`, or None for plain LAS
    """

    def __init__(self, file: BinaryIO, point_format: int, recipe: Any) -> None:
        self._file = file
        self._channels = _ScannerChannels(point_format)
        self._compressor: Any = None
        if recipe is not None:
            lazrs = lazrs_module("Writing LAZ")
            encoder = lazrs.LasZipCompressor if is_forked() else lazrs.ParLasZipCompressor
            self._compressor = encoder(file, recipe)

    def write(self, records: NDArray[Any]) -> None:
        """Append records (M,)."""
        data = records.view(np.uint8)
        if self._compressor is None:
            self._file.write(data.data)
        elif self._channels.mixed(records):
            raise PdflowError(
                "LAZ cannot hold waveforms of several scanner channels: write a .las file."
            )
        else:
            self._compress(self._compressor.compress_many, data)

    def finish(self) -> None:
        """Flush the compressor."""
        if self._compressor is not None:
            self._compress(self._compressor.done)

    def _compress(self, step: Callable[..., None], *data: NDArray[np.uint8]) -> None:
        try:
            step(*data)
        except RuntimeError as error:  # lazrs wraps a full disk in its own error
            raise OSError(str(error)) from error
