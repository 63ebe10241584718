"""What scanners do wrong: noise on a scan, mixed pixels at depth edges, and outliers.

`sigma` is in the scan's own unit. Every kind of noise takes it as its standard deviation:

    independent   Gaussian along all axes: sigma along each
    ray           Gaussian along the ray
    range         along the ray, growing with range and grazing angle: sigma is the root of the
                  mean square over the scan
    quantised     along the ray: Gaussian, then ranges rounded to a step; half of the variance each
    correlated    along the ray: a smooth random function of the pixel over 1 to 5 pixels, for
                  each scan its own, and 15 % of the variance independent; where there is no
                  grid, one function of the place over 1 to 5 spacings, the same on either side
    registration  every scan (station, pass) is shifted and turned a little as a whole, and has
                  independent noise: 70 and 30 % of the variance across the surface

The **effective sigma** of a point is the standard deviation of its error along the normal of its
surface, over repeated measurements: sigma itself for independent noise, less where the error
points along the ray and the ray is slanted. That is the thickness of the layer that noise makes
of a surface, so it is what can be seen in the cloud, and what can be taken away. Averaged over
all directions of normals it is the root of the mean over axes that `pdflow.noise.kinds` has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray
from pdflow.scenes.fields import log_uniform, random_direction, smooth_field
from pdflow.scenes.scan import Scan, depth_jumps

Generator = np.random.Generator

KINDS = ("independent", "ray", "range", "quantised", "correlated", "registration")
"""The kinds of noise in the table above."""

CORRELATION_LENGTHS = (1.0, 5.0)
"""Shortest and longest distance, in pixels or spacings, over which the correlation falls to 1/e."""

INDEPENDENT_SHARE = 0.15
"""Part of the variance of correlated noise that is not correlated."""

REGISTRATION_SHARE = 0.7
"""Part of the variance across the surface that comes from moving whole scans."""

FAR_AND_GRAZING = (0.25, 4.0)
"""Least and most that range and grazing angle multiply the noise by."""

RAY_OUTLIERS = (0.02, 0.5)
"""How far outliers along a ray lie before or behind their surface, in radii of the scan."""


@dataclass(frozen=True)
class Measured:
    """A scan with errors.

    points    (M, 3), row by row those of the scan, then outliers that were added
    sigma     (M,) effective sigma of each; NaN for outliers, whose error is no noise
    outliers  (M,) bool: mixed pixels and added outliers
    """

    points: FloatArray
    sigma: FloatArray
    outliers: NDArray[np.bool_]


Noise = Callable[[Scan, float, Generator], tuple[FloatArray, FloatArray]]
"""(scan, sigma, rng) -> offsets (M, 3) and effective sigma (M,)."""


def add_errors(scan: Scan, kind: str, sigma: float, rng: Generator) -> Measured:
    """The scan with noise of one of the kinds of NOISES, at a level in the scan's own unit."""
    if kind not in NOISES:
        raise PdflowError(f"There is no noise kind {kind!r}: choose one of {', '.join(NOISES)}.")
    offsets, effective = NOISES[kind](scan, sigma, rng)
    return Measured(scan.points + offsets, effective, np.zeros(len(scan), bool))


def _independent(scan: Scan, sigma: float, rng: Generator) -> tuple[FloatArray, FloatArray]:
    return sigma * rng.standard_normal((len(scan), 3)), np.full(len(scan), sigma)


def _ray(scan: Scan, sigma: float, rng: Generator) -> tuple[FloatArray, FloatArray]:
    return _along(scan, sigma * rng.standard_normal(len(scan)), np.full(len(scan), sigma))


def _range(scan: Scan, sigma: float, rng: Generator) -> tuple[FloatArray, FloatArray]:
    # Time of flight grows with the range, triangulation with its square.
    factor = grazing_factor(scan.ranges, scan.cosines, rng.uniform(0.5, 2))
    factor /= np.sqrt((factor**2).mean())
    return _along(scan, sigma * factor * rng.standard_normal(len(scan)), sigma * factor)


def grazing_factor(ranges: FloatArray, cosines: FloatArray, power: float) -> FloatArray:
    """(M,): what noise is multiplied by at a range and an angle, relative to the median range."""
    factor = (ranges / np.median(ranges)) ** power / np.maximum(cosines, 0.1)
    return np.asarray(np.clip(factor, *FAR_AND_GRAZING))


def _quantised(scan: Scan, sigma: float, rng: Generator) -> tuple[FloatArray, FloatArray]:
    if sigma == 0:
        return np.zeros_like(scan.points), np.zeros(len(scan))
    # A step adds its square / 12 to the variance, whatever the noise before.
    step = np.sqrt(6) * sigma
    before = scan.ranges + sigma / np.sqrt(2) * rng.standard_normal(len(scan))
    return _along(scan, step * np.round(before / step) - scan.ranges, np.full(len(scan), sigma))


def _correlated(
    scan: Scan, sigma: float, rng: Generator, length: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """length  distance in pixels or spacings at which the correlation has fallen to 1/e"""
    length = rng.uniform(*CORRELATION_LENGTHS) if length is None else length
    sides = np.ones(len(scan))
    if np.isnan(scan.pixels).any():
        places = scan.points / scan.spacing
        sides[(scan.rays * scan.normals).sum(1) < 0] = -1
    else:  # every scan has its own errors, so its pixels are far from those of the others
        places = scan.pixels + 100 * length * scan.scans[:, None]
    smooth = smooth_field(places, length, rng, features=256)
    rough = rng.standard_normal(len(scan))
    error = np.sqrt(1 - INDEPENDENT_SHARE) * smooth + np.sqrt(INDEPENDENT_SHARE) * rough
    return _along(scan, sigma * sides * error, np.full(len(scan), sigma))


def _registration(scan: Scan, sigma: float, rng: Generator) -> tuple[FloatArray, FloatArray]:
    """The mean move over all points is taken off: the truth lies in the middle of the scans."""
    numbers = np.unique(scan.scans, return_inverse=True)[1].reshape(-1)
    if numbers.max() == 0:
        numbers = rng.integers(2, size=len(scan))
    shares = rng.random((numbers.max() + 1, 1))
    shifts, turns = (np.stack([random_direction(rng) for _ in shares]) for _ in range(2))
    shift, turn = ((1 - shares) * shifts)[numbers], (shares * turns)[numbers]
    places = (scan.points - scan.points.mean(axis=0)) / scan.radius
    moves = shift - shift.mean(axis=0) + np.cross(turn - turn.mean(axis=0), places)
    across = (moves * scan.normals).sum(1)
    size = np.sqrt(REGISTRATION_SHARE) * sigma / max(np.sqrt((across**2).mean()), 1e-12)
    rest = np.sqrt(1 - REGISTRATION_SHARE) * sigma
    effective = np.sqrt((size * across) ** 2 + rest**2)
    return size * moves + rest * rng.standard_normal((len(scan), 3)), effective


def _along(scan: Scan, errors: FloatArray, sigma: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Errors (M,) along the rays as offsets, and what can be seen of their sigma (M,)."""
    return errors[:, None] * scan.rays, sigma * scan.cosines


NOISES: dict[str, Noise] = dict(
    zip(KINDS, (_independent, _ray, _range, _quantised, _correlated, _registration), strict=True)
)


def mix_pixels(scan: Scan, measured: Measured, share: float, rng: Generator) -> Measured:
    """Let pixels at depth edges see both sides: they lie somewhere between, along their ray.

    share  part of the points at edges that this happens to
    """
    jumps = depth_jumps(scan)
    mixed = (jumps != 0) & (rng.random(len(scan)) < share)
    moves = jumps * rng.uniform(0.1, 0.9, len(scan)) * mixed
    points = measured.points.copy()
    points[: len(scan)] += moves[:, None] * scan.rays
    outliers = measured.outliers.copy()
    outliers[: len(scan)] |= mixed
    return Measured(points, np.where(outliers, np.nan, measured.sigma), outliers)


def add_outliers(
    scan: Scan, measured: Measured, kind: str, share: float, rng: Generator
) -> Measured:
    """Add outliers of one of the kinds of OUTLIERS, behind the other rows.

    share  how many, as a part of the scan's points

    Some of them lie close to the surface by chance, as in reality.
    """
    if kind not in OUTLIERS:
        raise PdflowError(
            f"There is no outlier kind {kind!r}: choose one of {', '.join(OUTLIERS)}."
        )
    count = round(share * len(scan))
    return Measured(
        np.concatenate([measured.points, OUTLIERS[kind](scan, count, rng)]),
        np.concatenate([measured.sigma, np.full(count, np.nan)]),
        np.concatenate([measured.outliers, np.ones(count, bool)]),
    )


def _uniform_outliers(scan: Scan, count: int, rng: Generator) -> FloatArray:
    """Anywhere in the bounding box."""
    low, high = scan.points.min(axis=0), scan.points.max(axis=0)
    # A flat scan has a box without height, where outliers would be points of the surface.
    flat = np.maximum(0.1 * scan.radius - (high - low), 0) / 2
    return rng.uniform(low - flat, high + flat, (count, 3))


def _clumped_outliers(scan: Scan, count: int, rng: Generator) -> FloatArray:
    """In clumps of about 5 to 30 points, a few spacings wide."""
    clumps = max(1, round(count / rng.uniform(5, 30)))
    centers = _uniform_outliers(scan, clumps, rng)
    sizes = scan.spacing * rng.uniform(1, 5, (clumps, 1))
    clump = rng.integers(clumps, size=count)
    return np.asarray(centers[clump] + sizes[clump] * rng.standard_normal((count, 3)))


def _ray_outliers(scan: Scan, count: int, rng: Generator) -> FloatArray:
    """Along rays, before the surface or behind it, more often near than far."""
    rows = rng.integers(len(scan), size=count)
    sizes = np.array([log_uniform(rng, *RAY_OUTLIERS) for _ in range(count)])
    away = rng.choice([-1.0, 1.0], count) * sizes * scan.radius
    # Nothing is measured behind the scanner.
    away = np.maximum(away, -0.95 * scan.ranges[rows])
    return np.asarray(scan.points[rows] + away[:, None] * scan.rays[rows])


OUTLIERS: dict[str, Callable[[Scan, int, Generator], FloatArray]] = {
    "uniform": _uniform_outliers,
    "clumped": _clumped_outliers,
    "rays": _ray_outliers,
}
