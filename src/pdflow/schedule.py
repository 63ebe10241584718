"""How many passes, and on how many parts: decided from the estimated noise, never told.

The measure is the noise over the radius of a patch: what a network sees of it. Within one
network it alone decides what a pass can do, whatever the size and density of the cloud.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdflow.config import InferenceConfig
from pdflow.geometry.neighbors import knn
from pdflow.islands import points_within_reach
from pdflow.noise.estimate import NoiseEstimate

SEEDS = 64
"""Patches whose radius is looked at."""


@dataclass(frozen=True)
class Plan:
    """Passes through the network, and parts that the first of them works on."""

    passes: int
    parts: int


def make_plan(
    points: NDArray[np.float64], noise: NoiseEstimate, patch_points: int, inference: InferenceConfig
) -> Plan:
    """What the noise in `points` (M, 3) asks for.

    Another pass is made for each of the `pass_thresholds` that is exceeded. The first pass works
    on parts where noise fills so much of a patch that no surface can be seen in it: parts of 1/n
    the density have patches sqrt(n) times as large (partition denoising, supplement C.3).
    """
    ratio = noise_over_radius(points, noise, patch_points)
    passes = 1 + sum(ratio > limit for limit in inference.pass_thresholds)
    if ratio <= inference.partition_thresholds[1]:
        return Plan(passes, 1)
    return Plan(passes, math.ceil((ratio / inference.partition_thresholds[0]) ** 2))


def told_share(inference: InferenceConfig, done: int, passes: int) -> float:
    """The share of a cloud's noise that a network is told, `done` of its `passes` being made.

    Where many patches and passes are averaged, each may smooth less than it would alone.
    """
    alone, first, later = inference.conditioning_scales
    if done:
        return later
    return alone if passes == 1 else first


@dataclass(frozen=True)
class Told:
    """What is told of a cloud's noise: a share of it."""

    noise: NoiseEstimate
    share: float

    def at(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """(P,): what is told of the noise at places (P, 3)."""
        return self.share * self.noise.at(places)


def noise_over_radius(
    points: NDArray[np.float64], noise: NoiseEstimate, patch_points: int
) -> float:
    """Noise over the median radius of full patches of `points` (M, 3).

    Patches end where an island does; smaller ones count as if they were filled up.
    """
    size = min(patch_points, len(points))
    seeds = points[:: max(1, len(points) // SEEDS)]
    sq_distances = knn(points, seeds, size)[0]
    reached = points_within_reach(sq_distances)
    sq_radii = sq_distances[np.arange(len(seeds)), reached - 1] * (patch_points / reached)
    radius = float(np.sqrt(np.median(sq_radii)))
    return noise.sigma / radius if radius > 0 else 0.0
