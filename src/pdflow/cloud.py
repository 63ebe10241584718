"""PointCloud: points, attributes of each point, and metadata of the file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdflow.errors import PdflowError
from pdflow.reprs import counted, extent, html_table


@dataclass(eq=False, repr=False)
class PointCloud:
    """Points with all attributes and metadata of their file.

    points      (M, 3) float64, also in all computations until a patch enters the network, so that
                UTM coordinates of 5e6 m keep 0.1 mm.
    attributes  name -> (M,) or (M, W) array of any dtype. Names shared by all formats:
                `colors` (M, 3), `normals` (M, 3), `intensity`, `classification`, `gps_time`.
                Any other name is kept as the file spells it.
    metadata    data of the file as a whole. Values are JSON types, bytes or numpy arrays,
                nested in dicts and lists. Names shared by all formats: `comments` (list of
                str), `crs` (str: WKT or an authority code). Data of a single format is in a
                dict under the format's name, such as `las` or `ply`.

    >>> cloud = PointCloud([[0, 0, 0], [1, 2, 3]], {"intensity": np.array([7, 9], np.uint16)})
    >>> cloud
    PointCloud: 2 points, intensity; 1.0 x 2.0 x 3.0
    >>> len(cloud), cloud.points.dtype.name, cloud[1:].attributes["intensity"].tolist()
    (2, 'float64', [9])
    """

    points: NDArray[np.float64]
    attributes: dict[str, NDArray[Any]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def __init__(
        self,
        points: ArrayLike,
        attributes: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.points = np.ascontiguousarray(points, dtype=np.float64)
        if self.points.ndim != 2 or self.points.shape[1] != 3:
            raise PdflowError(
                f"Points must have shape (M, 3), not {self.points.shape}: pass one row per point."
            )
        self.attributes = {k: np.asarray(v) for k, v in (attributes or {}).items()}
        self.metadata = dict(metadata or {})
        for name, values in self.attributes.items():
            if values.ndim not in (1, 2) or len(values) != len(self.points):
                raise PdflowError(
                    f"Attribute {name!r} has shape {values.shape} but the cloud has "
                    f"{len(self.points)} points: give it one row per point."
                )

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        """Points, attributes and extent in one line."""
        what = ", ".join([counted(len(self), "point"), *self.attributes])
        return f"PointCloud: {what}; {extent(self.points)}"

    def _repr_html_(self) -> str:
        rows = [
            (name, values.dtype, values.shape[1] if values.ndim > 1 else 1, _range(values))
            for name, values in {"points": self.points, **self.attributes}.items()
        ]
        return html_table(repr(self), rows, ("", "type", "columns", "range"))

    def __getitem__(self, rows: Any) -> PointCloud:
        """Some rows (slice, mask or index array) with all attributes and metadata."""
        if isinstance(rows, (int, np.integer)):
            rows = [rows]
        return PointCloud(
            self.points[rows], {k: v[rows] for k, v in self.attributes.items()}, self.metadata
        )

    def with_points(self, points: ArrayLike) -> PointCloud:
        """The same attributes and metadata with other coordinates, row by row."""
        return PointCloud(points, self.attributes, self.metadata)

    @property
    def bounds(self) -> NDArray[np.float64]:
        """(2, 3): smallest and largest coordinate."""
        return np.stack([self.points.min(0), self.points.max(0)])

    @staticmethod
    def concatenate(clouds: Iterable[PointCloud]) -> PointCloud:
        """One cloud from the chunks of a file; the metadata is that of the first chunk."""
        chunks = list(clouds)
        if not chunks:
            raise PdflowError("Nothing to concatenate: give at least one cloud.")
        return PointCloud(
            np.concatenate([c.points for c in chunks]),
            {k: np.concatenate([c.attributes[k] for c in chunks]) for k in chunks[0].attributes},
            chunks[0].metadata,
        )


def _range(values: NDArray[Any]) -> str:
    """Smallest and largest of numbers."""
    if values.dtype.kind not in "biuf" or not values.size:
        return ""
    low, high = values.min(), values.max()
    return f"{low:.6g} to {high:.6g}" if values.dtype.kind == "f" else f"{low} to {high}"
