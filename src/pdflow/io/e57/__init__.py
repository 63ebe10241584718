"""E57: one or several scans with poses, as one cloud in the file's common frame.

Attributes have the names of the point fields, except `colors` and `normals`; which scan a point
comes from is in `scan` where there are several. `metadata["e57"]` has what the file says of
itself and of each of its `scans` (name, guid, pose, sensor, times, limits), and its pictures.

Points that the scanner marked as invalid (`cartesianInvalidState`) have no place: their
coordinates are NaN. Those of which it knew the direction have it in `direction`.

What follows from the points is not kept but made anew: bounds, the table of points per line
(their numbers are in `rowIndex` and `columnIndex`), and spherical coordinates, which become
cartesian ones. Files are read and written as a whole, and points are written scan by scan.
"""

from __future__ import annotations

from pathlib import Path

from pdflow.cloud import PointCloud
from pdflow.io.damage import explain_damage
from pdflow.io.e57.reader import CloudReader
from pdflow.io.e57.tree import libe57_module
from pdflow.io.e57.writer import CloudWriter
from pdflow.io.losses import warn_of_losses


def read(path: Path) -> PointCloud:
    """The scans of a file, one after the other, in the common frame."""
    libe57 = libe57_module("Reading E57")
    with explain_damage(path, "it is no E57 file, or damaged"):
        file = libe57.ImageFile(str(path), "r")
        try:
            return CloudReader(file, libe57, path).read()
        finally:
            file.close()


def write(path: Path, cloud: PointCloud) -> None:
    """Write the scans of a cloud, or one scan if it came from no E57 file."""
    libe57 = libe57_module("Writing E57")
    try:
        file = libe57.ImageFile(str(path), "w")
        try:
            lost = CloudWriter(file, libe57, cloud).write()
            file.close()
        finally:
            if file.isOpen():
                file.cancel()
    except libe57.E57Exception as error:
        raise OSError(str(error).splitlines()[0]) from error
    warn_of_losses("E57", lost)
