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

ReadPoints = Callable[[int], NDArray[Any]]
"""From a number of points to that many records, the next ones in the file."""

LARGE_CHUNK = 1_000_000
"""Compressed chunks of more points than this are never held as a whole."""


def lazrs_module(purpose: str) -> ModuleType:
    """The LAZ codec, or a sentence that names the extra that brings it."""
    return require("lazrs", extra="las", purpose=purpose)


def open_points(file: BinaryIO, header: LasHeader, dtype: np.dtype[Any], path: Any) -> ReadPoints:
    """A function that reads the points of an open file, the first ones first."""
    if header.count == 0:
        return lambda count: np.zeros(0, dtype)
    file.seek(header.point_offset)
    if header.compressed:
        return _open_compressed(file, header, dtype, path)

    def read(count: int) -> NDArray[Any]:
        records = np.zeros(count, dtype)
        if file.readinto(records.view(np.uint8)) < records.nbytes:  # type: ignore[attr-defined]
            raise PdflowError(f"{path} ends inside its points: it was cut while being read.")
        return records

    return read


def laszip_vlr(header: LasHeader, path: Any) -> bytes:
    """How the points of a file are compressed, in the words of the file."""
    vlr = header.find_vlr(LASZIP_VLR)
    if vlr is None:
        raise PdflowError(f"{path}: its points are compressed but it does not say how: damaged.")
    return vlr.data


def new_decoder(file: BinaryIO, header: LasHeader, path: Any, parallel: bool) -> Any:
    """A decoder that stands before the first point."""
    lazrs = lazrs_module("Reading LAZ")
    file.seek(header.point_offset)
    decoder = lazrs.ParLasZipDecompressor if parallel else lazrs.LasZipDecompressor
    everything = lazrs.DecompressionSelection(lazrs.SELECTIVE_DECOMPRESS_ALL)
    vlr = laszip_vlr(header, path)
    guarded = _Guarded(file, _longest_run(header, lazrs.LazVlr(vlr)))
    return decoder(guarded, vlr, everything)


def _open_compressed(
    file: BinaryIO, header: LasHeader, dtype: np.dtype[Any], path: Any
) -> ReadPoints:
    # The parallel decoder holds whole chunks, so it is for files with chunks of a sane size.
    recipe = lazrs_module("Reading LAZ").LazVlr(laszip_vlr(header, path))
    small = recipe.uses_variable_size_chunks() or recipe.chunk_size() <= LARGE_CHUNK
    decoder = new_decoder(file, header, path, parallel=small)
    channels = _ScannerChannels(header.point_format)

    def read(count: int) -> NDArray[Any]:
        records = np.zeros(count, dtype)
        decoder.decompress_many(records.view(np.uint8))
        if channels.mixed(records):
            raise PdflowError(
                f"{path}: waveforms of several scanner channels cannot be decompressed: make it "
                "a .las file with the software that it comes from."
            )
        return records

    return read


def _longest_run(header: LasHeader, recipe: Any) -> int:
    """How many bytes 0xff can follow each other in sound compressed points, with a margin.

    A coder writes them while each symbol is the last of its alphabet. Where all dimensions share
    one coder (formats below 6) that never lasts. Where each byte has its own, a counter that
    runs down does it: some 350 bytes until the coder has learnt, then one for 700 points.
    """
    if header.point_format < 6:
        return 128 + header.record_length
    points = LARGE_CHUNK // 2 if recipe.uses_variable_size_chunks() else recipe.chunk_size()
    return 512 + int(points) // 256


class _Guarded:
    """A file for lazrs that refuses impossible runs of 0xff.

    Erased storage has them, and lazrs crashes the whole process on them.
    """

    def __init__(self, file: BinaryIO, longest: int) -> None:
        self._file, self._run = file, b"\xff" * longest
        self.seek, self.tell, self.read = file.seek, file.tell, file.read
        self.write = file.write

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, and look at what it got."""
        count: int = self._file.readinto(buffer)  # type: ignore[attr-defined]
        if self._run in bytes(buffer):
            raise ValueError("a stretch of it is erased")
        return count


class _ScannerChannels:
    """Watches for what lazrs gets wrong in both directions: waveforms in layered compression
    (formats 9 and 10) when the scanner channel changes from point to point."""

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
    """Make a header say that its points are compressed; returned is the recipe for `PointSink`."""
    lazrs = lazrs_module("Writing LAZ")
    recipe = lazrs.LazVlr.new_for_compression(header.point_format, extra_bytes)
    header.vlrs.append(Vlr(*LASZIP_VLR, "lazrs", bytes(recipe.record_data())))
    header.compressed = True
    return recipe


class PointSink:
    """Where point records go: straight into the file, or through the compressor.

    file    open, with its position where the points begin
    recipe  from `add_laszip_vlr`, or None for plain LAS
    """

    def __init__(self, file: BinaryIO, point_format: int, recipe: Any) -> None:
        self._file = file
        self._channels = _ScannerChannels(point_format)
        self._compressor: Any = None
        if recipe is not None:
            self._compressor = lazrs_module("Writing LAZ").ParLasZipCompressor(file, recipe)

    def write(self, records: NDArray[Any]) -> None:
        """Append records (M,)."""
        data = records.view(np.uint8)
        if self._compressor is None:
            self._file.write(data.data)
        elif self._channels.mixed(records):
            raise PdflowError(
                "Waveforms of several scanner channels cannot be compressed: write a .las file."
            )
        else:
            self._compress(self._compressor.compress_many, data)

    def finish(self) -> None:
        """Write what is still in the compressor."""
        if self._compressor is not None:
            self._compress(self._compressor.done)

    def _compress(self, step: Callable[..., None], *data: NDArray[np.uint8]) -> None:
        try:
            step(*data)
        except RuntimeError as error:  # lazrs hides a full disk in an error of its own
            raise OSError(str(error)) from error
