"""Noise models of the paper and of ScoreDenoise, on points of any size and place.

`level` is relative to the radius R of the clean cloud's bounding sphere
(`pdflow.geometry.unit_sphere`), and s = level * R below. Offsets are drawn point by point,
independently:

    gaussian        n ~ N(0, s^2 I): s is the standard deviation along each axis
    anisotropic     n ~ N(0, s^2 S), S = [[1, -1/2, -1/4], [-1/2, 1, -1/4], [-1/4, -1/4, 1]]:
                    s is the standard deviation along each axis, the axes are correlated
    unidirectional  n = (t, 0, 0), t ~ N(0, s^2): s is the standard deviation along x
    uniform         density 3 / (4 pi s^3) where |n| <= s, 0 elsewhere: s is the largest offset;
                    the standard deviation along each axis is s / sqrt(5)
    discrete        n = +-s e_x, +-s e_y, +-s e_z with probability 0.1 each, 0 with 0.4: s is the
                    length of an offset; the standard deviation along each axis is s sqrt(0.2)
    laplace         density exp(-|t| / s) / (2 s) along each axis, independently: s is the scale;
                    the standard deviation along each axis is s sqrt(2)

These are the noises of the supplements of ScoreDenoise (Luo and Hu, ICCV 2021) and of the paper,
with parameters as in their public code: github.com/luost26/score-denoise, utils/transforms.py,
and github.com/unknownue/pdflow, eval/plot/noise. The simulated scanner is in
`pdflow.noise.lidar`, because it needs a surface rather than points.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, finite_points
from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.seeds import generator

ANISOTROPIC_COVARIANCE: FloatArray = np.array(
    [[1.0, -0.5, -0.25], [-0.5, 1.0, -0.25], [-0.25, -0.25, 1.0]]
)
"""Covariance of the anisotropic noise at s = 1."""

DISCRETE_PROBABILITY = 0.1
"""Probability of each of the six offsets of the discrete noise."""

Generator = np.random.Generator


def add_noise(points: ArrayLike, kind: str, level: float, seed: int = 0) -> FloatArray:
    """Noisy points (M, 3), row by row those of `points` (M, 3).

    kind   one of `KINDS`; the module's docstring has their distributions
    level  size of the noise relative to the bounding sphere's radius; 0 returns the points
    seed   the same seed gives the same noise, for each kind

    >>> clean = np.eye(3)
    >>> noisy = add_noise(clean, "uniform", 0.02, seed=1)
    >>> bool(0 < np.abs(noisy - clean).max() <= 0.02)
    True
    """
    if kind not in _OFFSETS:
        raise PdflowError(f"There is no noise kind {kind!r}: choose one of {', '.join(KINDS)}.")
    size = check_level(level)
    cloud = finite_points(points)
    if size == 0 or len(cloud) == 0:
        return np.array(cloud)
    if not np.ptp(cloud, axis=0).any():
        raise PdflowError(
            "The cloud has no extent, so that no noise is relative to its size: give at least two "
            "different points."
        )
    offsets = _OFFSETS[kind](len(cloud), generator(seed))
    return np.asarray(cloud + size * unit_sphere(cloud).scale * offsets)


def check_level(level: float) -> float:
    """`level` if it is a finite number from 0 on; anything else is refused.

    >>> check_level(0.02)
    0.02
    """
    if not 0 <= level < math.inf:
        raise PdflowError(
            f"The noise level {level} is not a number from 0 on: 0.02 means 2 % of the radius."
        )
    return float(level)


def _gaussian(count: int, rng: Generator) -> FloatArray:
    return rng.standard_normal((count, 3))


def _anisotropic(count: int, rng: Generator) -> FloatArray:
    root = np.linalg.cholesky(ANISOTROPIC_COVARIANCE)
    return np.asarray(rng.standard_normal((count, 3)) @ root.T)


def _unidirectional(count: int, rng: Generator) -> FloatArray:
    return np.asarray(rng.standard_normal((count, 1)) * [1.0, 0.0, 0.0])


def _uniform(count: int, rng: Generator) -> FloatArray:
    direction = rng.standard_normal((count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(direction * np.cbrt(rng.random((count, 1))))


def _discrete(count: int, rng: Generator) -> FloatArray:
    offsets = np.concatenate([np.eye(3), -np.eye(3), np.zeros((1, 3))])
    probabilities = [DISCRETE_PROBABILITY] * 6 + [1 - 6 * DISCRETE_PROBABILITY]
    return offsets[rng.choice(len(offsets), size=count, p=probabilities)]


def _laplace(count: int, rng: Generator) -> FloatArray:
    return rng.laplace(size=(count, 3))


_OFFSETS: dict[str, Callable[[int, Generator], FloatArray]] = {
    "gaussian": _gaussian,
    "anisotropic": _anisotropic,
    "unidirectional": _unidirectional,
    "uniform": _uniform,
    "discrete": _discrete,
    "laplace": _laplace,
}
"""Offsets (M, 3) of every kind at s = 1."""

KINDS: tuple[str, ...] = tuple(_OFFSETS)
