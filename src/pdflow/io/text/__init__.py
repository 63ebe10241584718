"""Text: XYZ, TXT, ASC, XYZN, XYZRGB, CSV and PTS, with or without names, any delimiter.

Reading finds out delimiter, comments, names and dtypes. The coordinates are called x, y and z, or
easting, northing and elevation, or longitude, latitude and height. Without names, the first three
columns are coordinates; one more is intensity; three more are colours (whole numbers from 0 to
255) or normals (length 1); anything else is called column_3, column_4, ... Comments after the
first row are skipped.

Writing gives plain numbers where these say it all. Otherwise a comment `# x y z intensity ...`
(in CSV, a first row) names the columns, and comments `# pdflow KEY JSON` hold the metadata.
"""

from __future__ import annotations

from pathlib import Path

from pdflow.cloud import PointCloud
from pdflow.io.stream import Header
from pdflow.io.text.reader import TextReader
from pdflow.io.text.writer import TextWriter


def open_reader(path: Path) -> TextReader:
    """Open a text file: its names and dtypes at once, its rows in chunks."""
    return TextReader(path)


def open_writer(path: Path, header: Header) -> TextWriter:
    """Write a text file in chunks; the number of points need not be known."""
    return TextWriter(path, header)


def write(path: Path, cloud: PointCloud) -> None:
    """Write a whole cloud."""
    TextWriter(path, Header.of(cloud), cloud.attributes).write_all([cloud])
