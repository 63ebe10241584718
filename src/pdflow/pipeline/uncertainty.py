"""Uncertainty: how far a point may still be off the surface after denoising.

Three lengths say it together: the noise around the point, the distance to its neighbours (the
sparser, the less a surface is known), and the disagreement of the patches that hold the point.
Their logarithms are weighed as `benchmarks/fit/fit_uncertainty.py` found on training shapes and
made scenes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.pipeline.passes import Passed
from pdflow.pipeline.restraint import code_of, noise_around
from pdflow.pipeline.surface import Surface

COVERED = 0.95
"""Share of points that are off by no more than their uncertainty."""

LEAST_NOISE, LEAST_SPREAD = 0.005, 0.002
"""What noise and disagreement count for at least, in distances to the farthest neighbour."""

FACTOR, NOISE_POWER, SPREAD_POWER = 0.625, 0.474, 0.127
"""The uncertainty is FACTOR * noise^NOISE_POWER * spread^SPREAD_POWER, in these distances."""


def expected_error(
    reach: NDArray[np.float64], sigma: NDArray[np.float64], spread: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(M,): distance from the surface within which a share COVERED of such points lies.

    reach   (M,) distance to the farthest of the NEIGHBOURS nearest points
    sigma   (M,) noise around the points
    spread  (M,) root mean square distance of the patches' answers from their mean

    >>> expected_error(np.ones(1), np.array([0.2]), np.array([0.01])).round(2)
    array([0.16])
    """
    noise, spread = features(reach, sigma, spread)
    return np.asarray(reach * FACTOR * noise**NOISE_POWER * spread**SPREAD_POWER)


def features(
    reach: NDArray[np.float64], sigma: NDArray[np.float64], spread: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Noise and disagreement (M,), in reaches and never zero."""
    unit = np.maximum(reach, np.finfo(float).tiny)
    return np.hypot(sigma / unit, LEAST_NOISE), np.hypot(spread / unit, LEAST_SPREAD)


def point_uncertainty(
    surface: Surface,
    passed: Passed,
    settled: NDArray[np.float64],
    held: NDArray[np.uint8],
) -> NDArray[np.float64] | None:
    """(M,): the uncertainty of every row of a cloud, NaN where there is no surface; or None if the
    disagreement of patches was not measured.

    passed   where the network saw the points of the surface, and how much patches disagree
    settled  (M, 3) where the points are now
    held     (M,) why they were held back

    Where a point was stopped or not selected, the way that it did not go comes on top.
    """
    if passed.spread is None or passed.reach is None:
        return None
    given, on_surface = surface.given, ~surface.outlier
    each, seen = np.full(len(on_surface), np.nan), given.different.copy()
    seen[on_surface] = passed.points
    sigma = noise_around(surface.noise, surface.search.points)
    each[on_surface] = expected_error(passed.reach, sigma, passed.spread)
    return where_held(each[given.place], seen[given.place], settled, held)


def where_held(
    expected: NDArray[np.float64],
    seen: NDArray[np.float64],
    settled: NDArray[np.float64],
    held: NDArray[np.uint8],
) -> NDArray[np.float64]:
    """(M,): expected errors (M,), with the way that points (M, 3) did not go to where the network
    saw them (M, 3); NaN where there is no surface. `held` (M,) says why.
    """
    uncertain = np.array(expected)
    stopped = np.isin(held, [code_of("bound"), code_of("not_selected")])
    uncertain[stopped] += np.linalg.norm(seen[stopped] - settled[stopped], axis=1)
    unknown = np.isin(held, [code_of("no_surface"), code_of("implausible")])
    uncertain[unknown] = np.nan
    return uncertain
