"""Survey: what is decided once for a cloud, from all of it or from a sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.geometry.components import FEWEST_POINTS
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.noise.estimate import NoiseEstimate, estimate_noise
from pdflow.noise.known import KnownNoise, check_noise, known_noise
from pdflow.pipeline.options import named_column
from pdflow.pipeline.outliers import Facts, find_outliers
from pdflow.pipeline.outliers.isolated import (
    find_isolated_points,
    log_distances,
    outlier_limit,
    within_noise,
)
from pdflow.pipeline.plan import Plan, believed

Level = float | NDArray[np.float64] | None
"""Noise that the caller knows: one level for all points, one (U,) for each, or None."""


NOTHING = 1e-3
"""Noise, in spacings of points, up to which there is none: rounding, or what nobody sees."""

MOST_LASER_NOISE = 1.0
"""In feet or metres: airborne laser scanners have centimetres."""


@dataclass(frozen=True)
class Survey:
    """What is decided once for a cloud.

    outlier_limit    distance to neighbours (its logarithm) from which a point may be an outlier
    estimated_sigma  noise that explains why points lie off a surface
    noise            estimated, or known
    plan             passes and partitions
    facts            by which outliers are told; None if only isolated points are asked for
    """

    outlier_limit: float
    estimated_sigma: float
    noise: NoiseEstimate
    plan: Plan
    facts: Facts | None = None


def survey_cloud(
    search: NeighborSearch,
    level: Level,
    make_plan: Callable[[NeighborSearch, NoiseEstimate], Plan],
    all_outliers: bool = False,
) -> tuple[NDArray[np.bool_], Survey]:
    """The survey of a cloud; and which points (U,) are far from all others.

    search        of the different points of the cloud, or of a sample of it
    make_plan     from the points on surfaces and their noise
    all_outliers  whether to find all outliers, not only isolated points
    """
    distances, facts = log_distances(search), None
    limit = outlier_limit(distances)
    far = np.asarray(distances > limit)
    if all_outliers:
        far, facts = find_outliers(search)
    surface = search.subset(~far)
    require_surface(len(surface))
    noise = believed(estimate_noise(surface))
    sigma = noise.sigma
    if not all_outliers:
        far = _unexplained(search, far, sigma, surface)
        surface = search.subset(~far)
    if level is not None:
        noise = known_noise(surface, rows_of(level, ~far))
    return far, Survey(limit, sigma, noise, make_plan(surface, noise), facts)


def far_points(
    search: NeighborSearch, survey: Survey, thin: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """(U,): which points are far from all others, by a survey of the cloud that they belong to.

    thin  (U,) points for a coarse view, chosen alike in all parts of a cloud
    """
    if survey.facts is not None:
        return find_outliers(search, survey.facts, thin)[0]
    far = find_isolated_points(search, survey.outlier_limit)
    return _unexplained(search, far, survey.estimated_sigma, search.subset(~far))


def _unexplained(
    search: NeighborSearch, far: NDArray[np.bool_], sigma: float, surface: NeighborSearch
) -> NDArray[np.bool_]:
    """(U,): the far points that noise of deviation `sigma` does not explain.

    surface  the search of the others
    """
    remaining = np.array(far)
    if far.any() and not far.all():
        remaining[far] = ~within_noise(search.points[far], surface, sigma)
    return remaining


def known_level(cloud: PointCloud, noise: float | str | NDArray[np.floating]) -> Level:
    """The level that the option `noise` gives: a number, or one (M,) for each point of a cloud."""
    level: Any = noise
    if isinstance(noise, str):
        if noise == "auto":
            return None
        level = named_column(cloud, noise, "noise")
    return check_noise(level, len(cloud))


def is_implausible(cloud: PointCloud, noise: NoiseEstimate) -> bool:
    """Whether the estimated noise is more than the scanner of a cloud has.

    Pulses with several returns come from airborne scans, in metres or feet. If only every hundredth
    point of one is left, terrain and trees between the points look like noise of many feet.
    """
    returns = cloud.attributes.get("number_of_returns")
    return returns is not None and len(returns) > 0 and exceeds_lasers(np.max(returns), noise.sigma)


def exceeds_lasers(returns: float, sigma: float) -> bool:
    """Whether noise is more than a scanner has whose pulses have up to so many returns."""
    return bool(returns > 1 and sigma > MOST_LASER_NOISE)


def is_clean(noise: NoiseEstimate) -> bool:
    """Whether a cloud has no noise that anybody could see: its points stay bit for bit."""
    return noise.sigma <= NOTHING * noise.spacing


def noise_of(
    surface: NDArray[np.float64], survey: Survey, level: Level, kept: NDArray[np.bool_]
) -> NoiseEstimate:
    """The noise of a surface (m, 3), which is the points of a cloud that a mask (U,) keeps."""
    noise = survey.noise
    if not isinstance(level, np.ndarray):
        return noise
    return KnownNoise(
        noise.sigma,
        noise.relative,
        noise.spacing,
        noise.reliable,
        surface,
        level[kept],
        kind=noise.kind,
    )


def rows_of(level: Level, kept: NDArray[np.bool_]) -> Any:
    """The levels of the points that a mask (U,) keeps."""
    return level[kept] if isinstance(level, np.ndarray) else level


def require_surface(count: int) -> None:
    """Refuse a cloud with too few points on surfaces."""
    if count < FEWEST_POINTS:
        raise PdflowError(
            f"The cloud has {count} distinct points on surfaces: at least {FEWEST_POINTS} are "
            "needed to tell a surface from noise."
        )
