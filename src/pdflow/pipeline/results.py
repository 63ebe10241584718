"""What a run returns: a clean cloud with everything that belongs to it, and a report."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import LossWarning
from pdflow.reprs import counted, html_table


@dataclass(frozen=True, repr=False)
class Report:
    """What a run did. Lengths are in the cloud's own unit.

    points, points_out  before and after
    outliers            points without a surface near them, kept or not
    noise_before        estimated standard deviation of the noise
    noise_after         the same after the last pass, before points that were held back returned;
                        with `where`, the points left out keep theirs
    noise_kind          `NoiseEstimate.kind`
    iterations          passes through the network
    partitions          that the first pass worked on
    coarse_partitions   for the coarser of two answers that the first pass was blended from; 0 if
                        it had one
    mean_displacement, max_displacement  how far points moved
    held_back           points by the reason that they were held back: "bound" if they would have
                        moved farther than their noise explains, or than `max_move`; "no_surface"
                        if they lie on no surface, like leaves; "not_selected" if `where` left them
                        out; "implausible", all points of an airborne scan, if the estimate is more
                        noise than laser scanners have
    seconds             wall-clock time of the run

    >>> import numpy as np, pdflow
    >>> noisy = np.random.default_rng(0).random((200, 3)) * [1, 1, 0.05]
    >>> _, report = pdflow.denoise(noisy, iterations=1, return_report=True)
    >>> report.points, report.points_out, report.as_dict()["iterations"]
    (200, 200, 1)
    """

    points: int
    points_out: int
    outliers: int
    noise_before: float
    noise_after: float
    iterations: int
    partitions: int
    mean_displacement: float
    max_displacement: float
    held_back: dict[str, int]
    seconds: float
    coarse_partitions: int = 0
    noise_kind: str = "given"

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON types."""
        return asdict(self)

    def __repr__(self) -> str:
        """The most important of it in one line."""
        return (
            f"Report: {counted(self.points_out, 'point')}, noise {self.noise_before:.3g} -> "
            f"{self.noise_after:.3g}, {counted(self.iterations, 'pass')}, moved by "
            f"{self.mean_displacement:.3g} (at most {self.max_displacement:.3g}), "
            f"{counted(self.outliers, 'outlier')}, {self.seconds:.1f} s"
        )

    def _repr_html_(self) -> str:
        values = self.as_dict().items()
        rows = [(k.replace("_", " "), f"{v:.4g}" if type(v) is float else v) for k, v in values]
        return html_table("Report", rows)


@dataclass(frozen=True, repr=False)
class Denoised:
    """A clean cloud and the report of how it was made; what a `Denoiser` returns.

    >>> import numpy as np, pdflow
    >>> noisy = pdflow.PointCloud(np.random.default_rng(0).random((200, 3)) * [1, 1, 0.05])
    >>> done = pdflow.Denoiser(pdflow.load_model("pdflow"), iterations=1)(noisy)
    >>> len(done.cloud), done.report.iterations
    (200, 1)
    """

    cloud: PointCloud
    report: Report

    def __repr__(self) -> str:
        """The cloud and the report, a line each."""
        return f"{self.cloud}\n{self.report}"

    def _repr_html_(self) -> str:
        return self.cloud._repr_html_() + self.report._repr_html_()


def with_columns(cloud: PointCloud, columns: Mapping[str, NDArray[Any]]) -> PointCloud:
    """A cloud with attributes added; replacing one of the same name gives a warning."""
    for name in sorted(columns.keys() & cloud.attributes.keys()):
        warnings.warn(
            f"This run replaces the attribute {name!r} of the cloud.", LossWarning, stacklevel=3
        )
    return PointCloud(cloud.points, {**cloud.attributes, **columns}, cloud.metadata)


def without_row_metadata(cloud: PointCloud) -> PointCloud:
    """A cloud whose metadata does not refer to rows that no longer exist.

    PLY files then lose their faces, with a warning, and PCD files their width and height.
    """
    metadata = dict(cloud.metadata)
    if "ply" in metadata:
        metadata["ply"] = {**metadata["ply"], "vertices": 0}
    if "pcd" in metadata:
        shape = ("width", "height")
        metadata["pcd"] = {k: v for k, v in metadata["pcd"].items() if k not in shape}
    return PointCloud(cloud.points, cloud.attributes, metadata)
