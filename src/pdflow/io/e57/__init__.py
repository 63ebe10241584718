"""E57: one or several scans with poses, as one cloud in the common frame of the file.

Attributes have the names of the point fields, except `colors` and `normals`; `scan` is the scan of
each point if there are several. `metadata["e57"]` keeps the header of the file and of each of its
`scans` (name, guid, pose, sensor, times, limits), and its pictures.

Points that the scanner marked as invalid (`cartesianInvalidState`) have NaN coordinates. If it knew
their direction, `direction` holds it.

The writer computes anew what follows from the points: bounds, the table of points per line (their
numbers are in `rowIndex` and `columnIndex`), and cartesian coordinates for spherical ones. Files
are read and written as a whole, and points are written scan by scan.
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
    """Read all scans of a file, one after the other, in the common frame."""
    libe57 = libe57_module("Reading E57")
    with explain_damage(path, "it is damaged or not an E57 file"):
        file = libe57.ImageFile(str(path), "r")
        try:
            return CloudReader(file, libe57, path).read()
        finally:
            file.close()


def write(path: Path, cloud: PointCloud) -> None:
    """Write the scans of a cloud, or one scan if it did not come from E57."""
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
