"""E57: one or several scans with poses, as one cloud in the common frame of the file.

Attributes have the names of the point fields, except `colors` and `normals`; `scan` is the scan of
each point if there are several. `metadata["e57"]` keeps the header of the file and of each of its
`scans` (name, guid, pose, sensor, times, limits), and its pictures.

Points that the scanner marked as invalid (`cartesianInvalidState`) have NaN coordinates. If it knew
their direction, `direction` holds it.

The writer computes anew what follows from the points: bounds, the table of points per line (their
numbers are in `rowIndex` and `columnIndex`), and cartesian coordinates for spherical ones. Points
are written scan by scan.
"""

from __future__ import annotations

from pathlib import Path

from pdflow.cloud import PointCloud
from pdflow.io.e57.reader import E57Reader
from pdflow.io.e57.writer import E57Writer
from pdflow.io.stream import Header


def open_reader(path: Path) -> E57Reader:
    """Open an E57 file: headers are read now, the points of all scans later in chunks."""
    return E57Reader(path)


def open_writer(path: Path, header: Header) -> E57Writer:
    """Write an E57 file in chunks: the scans of the header, or one if it is not from E57."""
    return E57Writer(path, header)


def write(path: Path, cloud: PointCloud) -> None:
    """Write a whole cloud, whose values say what is a scan number or a direction."""
    E57Writer(path, Header.of(cloud), cloud).write_all([cloud])
