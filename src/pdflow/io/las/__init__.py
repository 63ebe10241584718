"""LAS, LAZ and COPC, read and written in chunks; an unchanged cloud gives the same file again.

Attributes are the dimensions of the point format with their own names and types, `colors` for red,
green and blue, and the raw values of the extra bytes. `metadata["las"]` keeps everything that the
writer needs for the same file: version, point format, scales, offsets, VLRs, EVLRs (and with them
scale, offset and text of extra bytes) and the rest of the header.

The suffix `.laz` means compression, any other means plain LAS. A COPC file is read as the LAZ file
that it also is. Waveform packets inside the file are kept; a `.wdp` file beside it is not copied.
"""

from __future__ import annotations

from pathlib import Path

from pdflow.io.las.reader import LasReader
from pdflow.io.las.writer import LasWriter
from pdflow.io.stream import Header, Reader, Writer


def open_reader(path: Path) -> Reader:
    """Open a LAS, LAZ or COPC file."""
    return LasReader(path)


def open_writer(path: Path, header: Header) -> Writer:
    """Write a LAS file, or a LAZ file if the suffix is `.laz`."""
    return LasWriter(path, header)
