"""The clouds of one page: which points are shown, in which order, and coloured by what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.geometry.arrays import finite_points
from pdflow.geometry.morton import morton_keys
from pdflow.viewer.channels import Channel, channels_of, scalar

MOST_POINTS = 2_000_000
"""Points shown of one cloud, unless the caller says otherwise."""

_SAME_ROW = 0.1  # rows match if half of them are nearer than this share of the cloud's radius


@dataclass(frozen=True)
class ShownCloud:
    """One cloud of a scene, thinned and in the order of a Morton curve.

    total  points before thinning
    """

    name: str
    points: NDArray[np.float64]
    channels: tuple[Channel, ...]
    total: int


@dataclass(frozen=True)
class Scene:
    """Clouds that share one camera and one unit of length."""

    clouds: tuple[ShownCloud, ...]
    unit: str


def build_scene(
    clouds: Sequence[tuple[str, PointCloud]],
    clean: Any = None,
    most_points: int = MOST_POINTS,
) -> Scene:
    """Choose what is shown of named clouds; the first one is "before".

    clean        ground truth that errors are measured against: points (K, 3) or a TriangleMesh
    most_points  clouds with more points are thinned at random, always in the same way
    """
    if most_points < 1:
        raise PdflowError(f"At most {most_points} points are to be shown: choose 1 or more.")
    for name, cloud in clouds:
        if not len(cloud):
            raise PdflowError(f"{name} holds no points: there is nothing to show.")
        finite_points(cloud.points, name)
    before = clouds[0][1]
    matches = [rows_match(before, cloud) for _, cloud in clouds]
    moved = _displacements([cloud for _, cloud in clouds], matches)
    unit = unit_of(before)
    first_rows = _rows(before, most_points)
    shown = []
    for (name, cloud), match, lengths in zip(clouds, matches, moved, strict=True):
        rows = first_rows if match else _rows(cloud, most_points)
        some = cloud[rows]
        channels = {channel.name: channel for channel in channels_of(some, unit)}
        if lengths is not None:
            channels["displacement"] = scalar("displacement", lengths[rows], unit)
        if clean is not None:
            from pdflow.metrics import point_errors

            channels["error"] = scalar("error", point_errors(some.points, clean), unit)
        shown.append(ShownCloud(name, some.points, tuple(channels.values()), len(cloud)))
    return Scene(tuple(shown), unit)


def rows_match(before: PointCloud, after: PointCloud) -> bool:
    """Whether row i is the same measurement in both clouds.

    Resampled clouds may have as many points; their rows are then far apart.
    """
    if len(before) != len(after):
        return False
    radius = float(np.linalg.norm(np.ptp(before.points, axis=0))) / 2
    distances = np.linalg.norm(after.points - before.points, axis=1)
    return bool(np.median(distances) <= _SAME_ROW * radius)


def _displacements(
    clouds: Sequence[PointCloud], matches: Sequence[bool]
) -> list[NDArray[np.float64] | None]:
    """How far the points of each cloud are from their rows in the first one, which gets those of
    the second cloud; None where rows do not match."""
    lengths: list[NDArray[np.float64] | None] = [
        np.linalg.norm(cloud.points - clouds[0].points, axis=1) if match else None
        for cloud, match in zip(clouds, matches, strict=True)
    ]
    lengths[0] = next((each for each in lengths[1:] if each is not None), None)
    return lengths


def _rows(cloud: PointCloud, most_points: int) -> NDArray[np.int64]:
    """The rows to show, neighbours after neighbours, which compresses well."""
    rows = np.arange(len(cloud))
    if len(cloud) > most_points:
        rows = np.random.default_rng(0).choice(rows, most_points, replace=False)
    return np.asarray(rows[np.argsort(morton_keys(cloud.points[rows]), kind="stable")])


def unit_of(cloud: PointCloud) -> str:
    """Unit of the coordinates: metres in E57 and where the reference system says so; "units" where
    nothing is known."""
    crs = str(cloud.metadata.get("crs") or "")
    if "e57" in cloud.metadata or re.search(r'UNIT\["met(re|er)"', crs, re.IGNORECASE):
        return "m"
    return "units"
