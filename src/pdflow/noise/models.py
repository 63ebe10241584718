"""Noise on clouds of any size and place."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, finite_points, generator
from pdflow.geometry.frame import unit_sphere
from pdflow.noise.kinds import KINDS


def add_noise(points: ArrayLike, kind: str, level: float, seed: int = 0) -> FloatArray:
    """Noisy points (M, 3), row by row those of `points` (M, 3).

    kind   one of `KINDS`, whose entries describe their distributions
    level  size of the noise relative to the bounding sphere's radius; 0 returns the points
    seed   the same seed gives the same noise, for each kind

    >>> clean = np.eye(3)
    >>> noisy = add_noise(clean, "uniform", 0.02, seed=1)
    >>> bool(0 < np.abs(noisy - clean).max() <= 0.02)
    True
    """
    if kind not in KINDS:
        raise PdflowError(f"There is no noise kind {kind!r}: choose one of {', '.join(KINDS)}.")
    size = check_level(level)
    cloud = finite_points(points)
    if size == 0 or len(cloud) == 0:
        return np.array(cloud)
    if not np.ptp(cloud, axis=0).any():
        raise PdflowError(
            "The cloud has no extent that noise could be relative to: give at least two different "
            "points."
        )
    offsets = KINDS[kind].draw(len(cloud), generator(seed))
    return np.asarray(cloud + size * unit_sphere(cloud).scale * offsets)


def check_level(level: float) -> float:
    """`level` as a float; refused unless it is finite and not negative.

    >>> check_level(0.02)
    0.02
    """
    if not 0 <= level < math.inf:
        raise PdflowError(
            f"The noise level {level} is not a number of 0 or more: 0.02 means 2 % of the radius."
        )
    return float(level)
