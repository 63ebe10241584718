"""Read a LAS, LAZ or COPC file: header and VLRs at once, points in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.damage import explain_damage
from pdflow.io.las.check import check_points
from pdflow.io.las.codec import open_points
from pdflow.io.las.frame import Frame
from pdflow.io.las.header import read_header
from pdflow.io.las.layout import record_dtype
from pdflow.io.las.metadata import by_pdflow, read_metadata
from pdflow.io.las.plan import plan_to_read
from pdflow.io.stream import CHUNK, Header, Reader


class LasReader(Reader):
    """An open LAS, LAZ or COPC file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with explain_damage(path, "it cannot be read as LAS"), path.open("rb") as file:
            self._las = read_header(file, path)
            smallest = record_dtype(self._las.point_format, []).itemsize
            if self._las.record_length < smallest:
                raise PdflowError(
                    f"{path}: its points have {self._las.record_length} bytes, but point format "
                    f"{self._las.point_format} needs {smallest}: the header is damaged."
                )
            check_points(file, self._las, path)
            metadata, notes = read_metadata(self._las)
        self._plan = plan_to_read(self._las, notes, by_pdflow(self._las))
        fields = {c.name: c.kind for c in self._plan.columns}
        self.header = Header(self._las.count, fields, metadata)

    def chunks(self, size: int = CHUNK) -> Iterator[PointCloud]:
        """Clouds of at most `size` points, in file order."""
        frame = Frame(self._las.scales, self._las.offsets)
        with self._path.open("rb") as file:
            with explain_damage(self._path, "its points are damaged"):
                read = open_points(file, self._las, self._plan.dtype, self._path)
            for start in range(0, self._las.count, size):
                with explain_damage(self._path, f"the points from {start} on are damaged"):
                    records = read(min(size, self._las.count - start))
                axes = [frame.to_coordinates(records[n], axis) for axis, n in enumerate("XYZ")]
                yield PointCloud(
                    np.stack(axes, axis=1),
                    {c.name: c.get(records) for c in self._plan.columns},
                    self.header.metadata,
                )
