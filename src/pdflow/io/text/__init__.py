"""Text: XYZ, TXT, ASC, XYZN, XYZRGB, CSV and PTS, with or without names, any delimiter.

The reader detects delimiter, comments, names and dtypes. Coordinates are called x, y and z, or
easting, northing and elevation, or longitude, latitude and height. Without names, the first three
columns are coordinates; a fourth one is intensity; three more are colours (whole numbers from 0 to
255) or normals (length 1); any others are called column_3, column_4, ... Comments after the first
row are skipped.

The writer gives plain numbers if they are enough. Otherwise a comment `# x y z intensity ...` (in
CSV, the first row) names the columns, and comments `# pdflow KEY JSON` hold the metadata.
"""

from __future__ import annotations

from pathlib import Path

from pdflow.cloud import PointCloud
from pdflow.io.stream import Header
from pdflow.io.text.reader import TextReader
from pdflow.io.text.writer import TextWriter


def open_reader(path: Path) -> TextReader:
    """Open a text file: names and dtypes are read now, rows later in chunks."""
    return TextReader(path)


def open_writer(path: Path, header: Header) -> TextWriter:
    """Write a text file in chunks; the number of points may be unknown."""
    return TextWriter(path, header)


def write(path: Path, cloud: PointCloud) -> None:
    """Write a whole cloud."""
    TextWriter(path, Header.of(cloud), cloud.attributes).write_all([cloud])
