"""Noise that the caller knows: one level, or one for every point."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.noise.estimate import NoiseEstimate, estimate_noise


class KnownNoise(NoiseEstimate):
    """A noise level of every point: `local` (M,) at `queries` (M, 3)."""

    def at(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """(P,): the noise of the point nearest to each place (P, 3)."""
        nearest = NeighborSearch(self.queries).knn(places, 1)[1][:, 0]
        return np.asarray(self.local[nearest])


def known_noise(search: NeighborSearch, level: float | NDArray[np.float64]) -> NoiseEstimate:
    """The noise of a cloud, from a level that the caller knows.

    level  standard deviation along each axis in the cloud's own unit, or one (M,) for each point

    >>> known_noise(NeighborSearch(np.random.default_rng(0).random((50, 3))), 0.01).sigma
    0.01
    """
    estimate = estimate_noise(search)
    sigma = float(np.median(level))
    relative = sigma / estimate.sigma * estimate.relative if estimate.sigma > 0 else 0.0
    known = replace(estimate, sigma=sigma, relative=relative, reliable=True, kind="given")
    if np.ndim(level) == 0:
        none = np.empty(0)
        return replace(known, queries=np.empty((0, 3)), local=none, log_factors=none)
    values = np.asarray(level, dtype=np.float64)
    return KnownNoise(
        known.sigma,
        known.relative,
        known.spacing,
        known.reliable,
        search.points,
        values,
        kind=known.kind,
    )


def check_noise(level: Any, count: int) -> float | NDArray[np.float64]:
    """A noise level as a number or an array (count,); anything else is refused."""
    try:
        values = np.asarray(level, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if values.shape not in ((), (count,)):
        raise PdflowError(
            f"noise has shape {values.shape}: give one number, or one for each of {count} points."
        )
    if not (np.isfinite(values) & (values >= 0)).all():
        raise PdflowError(
            f"noise is {level!r}: give a length of 0 or more in the cloud's unit, or 'auto'."
        )
    return float(values) if values.ndim == 0 else values
