"""LAS, LAZ and COPC: read in chunks, written in chunks, and the same file again if unchanged.

Attributes are the dimensions of the point format under their own names and types, red, green
and blue together as `colors`, and the extra bytes with their raw values. `metadata["las"]` has
all that is needed to write the same file again: version, point format, scales, offsets, VLRs,
EVLRs (so also scale, offset and text of extra bytes) and the rest of the header.

A file named `.laz` is written compressed, any other plain. A COPC file is read as the LAZ file
that it also is. Waveform packets inside the file are kept; a `.wdp` file beside it is not moved.
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
    """Write a LAS file, or a LAZ file if the path says so."""
    return LasWriter(path, header)
