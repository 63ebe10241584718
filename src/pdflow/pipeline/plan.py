"""How many passes, and on how many partitions: decided from the estimated noise.

The measure is the noise over the radius of a patch: what a network sees of it. For one network it
alone decides what a pass can do, whatever the size and density of the cloud.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pdflow.config import InferenceConfig
from pdflow.geometry.components import FEWEST_POINTS, points_within_reach
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.noise.estimate import NoiseEstimate

SEEDS = 64
"""Patches whose radius is measured."""

EXCESS, COMMON = 3.0, 0.7
"""Local noise is believed up to EXCESS times the cloud's, or up to the COMMON quantile of all
queries."""


FADE_OUT = 0.8
"""Share of the largest noise of two scales from which the fine answer loses its weight."""


@dataclass(frozen=True)
class Plan:
    """Passes through the network, and partitions that the first of them works on.

    coarse  partitions for a second, coarser answer of the first pass; 0 for none
    bounds  least and greatest weight of that answer
    """

    passes: int
    partitions: int
    coarse: int = 0
    bounds: tuple[float, float] = (0.0, 0.0)

    def given(self, passes: int | Literal["auto"], partitions: int | Literal["auto"]) -> Plan:
        """The plan with what the caller decides, which is then the only scale."""
        if passes == partitions == "auto":
            return self
        return Plan(
            self.passes if passes == "auto" else passes,
            self.partitions if partitions == "auto" else partitions,
        )

    def within(self, points: int) -> Plan:
        """The plan for that many points, of which every partition gets some."""
        most = max(1, points // FEWEST_POINTS)
        if max(self.partitions, self.coarse) <= most:
            return self
        return Plan(self.passes, min(self.partitions, most))


def believed(noise: NoiseEstimate) -> NoiseEstimate:
    """The estimate without local levels that are far above those of most of the cloud.

    Foliage, wires and fine detail look like strong noise. A scanner that is so much noisier in a
    small part of its scan is less likely than a place without a surface.

    >>> noise = NoiseEstimate(0.1, 0.1, 1.0, True, np.zeros((5, 3)), np.array([0.1] * 4 + [9.0]))
    >>> believed(noise).local.max().round(6)
    np.float64(0.3)
    """
    if not len(noise.local):
        return noise
    limit = max(EXCESS * noise.sigma, float(np.quantile(noise.local, COMMON)))
    return replace(noise, local=np.minimum(noise.local, limit))


def make_plan(
    search: NeighborSearch, noise: NoiseEstimate, patch_points: int, inference: InferenceConfig
) -> Plan:
    """The plan for the noise of a cloud.

    patch_points  N of the network

    Each of the `pass_thresholds` that the noise exceeds adds a pass. If noise fills so much of a
    patch that its surface is hidden, the first pass works on partitions: n of them have 1/n of
    the density each, and patches sqrt(n) times as large (supplement C.3). A network with
    `scale_thresholds` gives answers with and without partitions before that is so.
    """
    ratio = noise_over_radius(search, noise, patch_points)
    passes = 1 + sum(ratio > limit for limit in inference.pass_thresholds)
    if inference.scale_thresholds:
        return two_scales(passes, ratio, inference.scale_thresholds)
    goal, limit = inference.partition_thresholds
    return Plan(passes, 1 if ratio <= limit else math.ceil((ratio / goal) ** 2))


def two_scales(passes: int, ratio: float, thresholds: tuple[float, ...]) -> Plan:
    """A plan with one or two scales, whose weights change continuously with the noise.

    ratio       noise over the radius of a patch
    thresholds  noise from which a coarser answer counts, from which it may replace the fine one,
                and from which only it is left; then it is the fine one of the next two scales

    >>> [two_scales(2, ratio, (0.05, 0.1, 0.3)).partitions for ratio in (0.04, 0.08, 0.31, 0.5)]
    [1, 1, 2, 4]
    >>> two_scales(2, 0.08, (0.05, 0.1, 0.3)).bounds
    (0.0, 0.6)
    """
    begin, full, end = thresholds
    partitions = 1
    while ratio > end:
        partitions *= 2
        # Partitions of half the density have patches sqrt(2) times as large.
        ratio /= math.sqrt(2)
        begin, full = end / math.sqrt(2), FADE_OUT * end
    most = _rise(ratio, begin, full)
    if not most:
        return Plan(passes, partitions)
    return Plan(passes, partitions, 2 * partitions, (_rise(ratio, FADE_OUT * end, end), most))


def _rise(value: float, begin: float, end: float) -> float:
    """From 0 at `begin` to 1 at `end`."""
    return round(min(max((value - begin) / (end - begin), 0.0), 1.0), 9)


def conditioning_scale(inference: InferenceConfig, done: int, plan: Plan) -> float:
    """The factor on a cloud's noise that conditions a pass, after `done` of a plan.

    Patches and passes are averaged, so each may smooth less than it would alone. Two scales smooth
    more than one, the more the coarser answer counts.
    """
    fine, both, later = inference.conditioning_scales
    if done:
        return later
    return fine + plan.bounds[1] * (both - fine)


@dataclass(frozen=True)
class Conditioning:
    """The noise that a pass is conditioned on: the estimate times a factor."""

    noise: NoiseEstimate
    scale: float

    def at(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """(P,): the noise at places (P, 3), scaled."""
        return self.scale * self.noise.conditioning_at(places)


def noise_over_radius(search: NeighborSearch, noise: NoiseEstimate, patch_points: int) -> float:
    """Noise over the median radius of full patches.

    Patches end where a connected component does; smaller ones count as if they were filled up.
    """
    points = search.points
    size = min(patch_points, len(points))
    # The order of the queries does not depend on that of the rows.
    places = noise.queries if len(noise.queries) else points
    seeds = places[:: max(1, len(places) // SEEDS)]
    sq_distances = search.knn(seeds, size)[0]
    reached = points_within_reach(sq_distances)
    sq_radii = sq_distances[np.arange(len(seeds)), reached - 1] * (patch_points / reached)
    radius = float(np.sqrt(np.median(sq_radii)))
    return noise.sigma / radius if radius > 0 else 0.0
