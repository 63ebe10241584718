"""What a run gives: a clean cloud with all that belongs to it, and a report of how it was made."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import LossWarning


@dataclass(frozen=True)
class Report:
    """What a run did. Lengths are in the cloud's own unit."""

    points: int
    points_out: int
    outliers: int
    noise_before: float
    noise_after: float
    iterations: int
    parts: int
    mean_displacement: float
    max_displacement: float
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class Denoised:
    """A clean cloud and the report of how it was made."""

    cloud: PointCloud
    report: Report


def with_columns(cloud: PointCloud, columns: Mapping[str, NDArray[Any]]) -> PointCloud:
    """A cloud with attributes added; one of the same name is replaced, and that is told."""
    for name in sorted(columns.keys() & cloud.attributes.keys()):
        told = f"The attribute {name!r} that the cloud had is replaced by that of this run."
        warnings.warn(told, LossWarning, stacklevel=3)
    return PointCloud(cloud.points, {**cloud.attributes, **columns}, cloud.metadata)


def without_row_metadata(cloud: PointCloud) -> PointCloud:
    """A cloud whose metadata knows that its rows are new ones, even where they are as many.

    A writer of PLY then leaves out faces and tells so; of PCD, width and height go.
    """
    metadata = dict(cloud.metadata)
    if "ply" in metadata:
        metadata["ply"] = {**metadata["ply"], "vertices": 0}
    if "pcd" in metadata:
        shape = ("width", "height")
        metadata["pcd"] = {k: v for k, v in metadata["pcd"].items() if k not in shape}
    return PointCloud(cloud.points, cloud.attributes, metadata)
