"""The noise level of a cloud, from the cloud alone.

Gaussian noise blurs a surface into a layer. A neighbourhood that is larger than the noise and
smaller than the shape shows how thick the layer is. The right size is not known beforehand, and
at edges and thin parts there is none. So `describe` describes each of a thousand query points at
seven neighbourhood sizes, by numbers that do not change with scale, place or rotation. A small
network (two layers of 32 units) predicts the noise at each query and its own uncertainty. The
estimate is the median, weighted by certainty, so queries that show no noise level hardly count.

If the noise is wider than the largest neighbourhood, as in dense clouds, the cloud is thinned at
random, which does not change its noise, and estimated again.

The network's coefficients lie in `estimate.json`; `benchmarks/fit_noise_estimate.py` makes them.
docs/noise.md has the method in full, its accuracy, and what did not help.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pdflow.geometry.arrays import FloatArray, finite_points
from pdflow.geometry.frame import Frame, unit_sphere
from pdflow.geometry.seeds import generator
from pdflow.noise.neighborhoods import FLOOR as FLOOR
from pdflow.noise.neighborhoods import (
    REACH_SCALE,
    Neighborhoods,
    describe_neighbors,
    neighbors_of,
)
from pdflow.noise.neighborhoods import describe as describe
from pdflow.noise.sampling import stable_sample

if TYPE_CHECKING:
    from pdflow.geometry.neighbors import NeighborSearch

FEW_POINTS = 1000
"""In smaller clouds, the larger neighbourhoods cover half of the shape."""

QUERIES = 1000
"""Number of query points; twice as many take twice the time and are not more accurate."""

OFFSET = 0.01
"""The network predicts log(sigma / reach + OFFSET), which is finite without noise."""

LOG_SPREADS = (-2.0, 3.0)
"""Limits of the predicted uncertainty: a few very certain queries must not outvote all others."""

LEAP = (0.08, 0.12)
"""A query whose smallest neighbourhood is within these shares of its reach lies, more or less, in
an isolated clump; on a surface that share is about half."""

MIDDLE = 0.2
"""Share of the weight of all queries around the median that is averaged."""

NEARBY, UPPER, BELIEVED = 64, 0.75, 0.6
"""Local noise is the UPPER quantile over the NEARBY nearest queries times BELIEVED, if that exceeds
the cloud's noise; chosen on held-out shapes with noise in one direction and in all."""

RATIOS = (0.6, 0.7)
"""Between these sigma / reach, the largest neighbourhood becomes too narrow and a thinned cloud
takes over."""

THINNED_RATIO = 0.5
"""The sigma / reach that thinning aims at."""

FEWEST_THINNED = 5000
"""Clouds are not thinned below this number of points."""

RADIUS_EXCESS = 2.0
"""Noise widens the bounding sphere by about this many standard deviations (1.2 to 2.8)."""


@dataclass(frozen=True)
class NoiseEstimate:
    """The noise of a cloud, estimated from the cloud.

    sigma     standard deviation along each axis, in the cloud's own unit
    relative  sigma over the radius of the bounding sphere of the clean shape; 0.01 is what papers
              call 1 %
    spacing   median distance from a point to its nearest neighbour, without duplicates
    reliable  False with fewer than 1000 distinct points, where sigma is rough; with fewer than 30,
              sigma is 0
    queries   (Q, 3) points where the noise was measured, and `local` (Q,), the sigma at each

    >>> rng = np.random.default_rng(0)
    >>> plane = rng.random((2000, 3)) * [1, 1, 0]
    >>> noise = estimate_noise(plane + 0.01 * rng.normal(size=(2000, 3)))
    >>> noise.reliable, round(noise.sigma, 2)
    (True, 0.01)
    >>> noise.at(np.array([[0.5, 0.5, 0.0]])).shape
    (1,)
    """

    sigma: float
    relative: float
    spacing: float
    reliable: bool
    queries: FloatArray = field(default_factory=lambda: np.empty((0, 3)), compare=False, repr=False)
    local: FloatArray = field(default_factory=lambda: np.empty(0), compare=False, repr=False)

    def at(self, places: FloatArray) -> FloatArray:
        """(P,): the noise around places (P, 3): sigma, or more if nearby queries show more.

        Noise in one direction does not show on surfaces along it, so most of a cloud may look
        clean.
        """
        from pdflow.geometry.neighbors import knn

        everywhere = np.full(len(places), self.sigma)
        if not len(self.local):
            return everywhere
        nearby = knn(self.queries, places, min(NEARBY, len(self.local)))[1]
        seen = np.quantile(self.local[nearby], UPPER, axis=1)
        return np.asarray(np.maximum(everywhere, BELIEVED * seen))

    @property
    def sigma_over_spacing(self) -> float:
        """Noise relative to the distance between points; 0 if that distance is 0."""
        return self.sigma / self.spacing if self.spacing > 0 else 0.0


def estimate_noise(points: ArrayLike | NeighborSearch, seed: int = 0) -> NoiseEstimate:
    """The standard deviation per axis of the Gaussian noise on `points` (M, 3).

    points  the cloud, or a search of its distinct points, whose tree is reused
    seed    chooses the query points

    The estimate scales with the cloud and does not change when the cloud moves, up to rounding.
    The order of rows and duplicates do not matter. A change of coordinates by 1e-7 of the cloud's
    size hardly changes the estimate. A rotation selects other query points, which changes it by
    about one percent.

    >>> rng = np.random.default_rng(0)
    >>> plane = rng.random((3000, 3)) * [1, 1, 0]
    >>> noise = estimate_noise(plane + rng.normal(size=(3000, 3)) * 0.01)
    >>> bool(abs(noise.sigma / 0.01 - 1) < 0.1)
    True
    """
    return estimate_with(load_network(), points, seed)


class Network(NamedTuple):
    """The network that predicts noise from descriptions of C numbers.

    mean, std  (C,) of the descriptions it was fitted to
    layers     (weights, bias) of each: (outputs, inputs) and (outputs,)
    """

    mean: FloatArray
    std: FloatArray
    layers: tuple[tuple[FloatArray, FloatArray], ...]

    def read(self, description: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log(sigma / reach + OFFSET) (Q,) and the log of its expected error (Q,).

        description  (Q, C)
        """
        # Inputs far outside the fitted range must not cause wild predictions.
        x = np.clip((description - self.mean) / self.std, -5, 5)
        for weights, bias in self.layers[:-1]:
            x = x @ weights.T + bias
            x = 0.5 * x * (1 + np.tanh(0.5 * x))
        weights, bias = self.layers[-1]
        ratio, spread = (x @ weights.T + bias).T
        return ratio, np.clip(spread, *LOG_SPREADS)


def network_from(document: dict[str, Any]) -> Network:
    """The network in a document that `benchmarks/fit_noise_estimate.py` wrote."""
    layers = tuple(
        (np.array(layer["weights"]), np.array(layer["bias"])) for layer in document["layers"]
    )
    return Network(np.array(document["mean"]), np.array(document["std"]), layers)


@functools.cache
def load_network() -> Network:
    """The network shipped with the package."""
    file = importlib.resources.files("pdflow.noise") / "estimate.json"
    return network_from(json.loads(file.read_text("utf-8")))


def estimate_with(
    network: Network, points: ArrayLike | NeighborSearch, seed: int = 0
) -> NoiseEstimate:
    """`estimate_noise` with another network."""
    from pdflow.geometry.distinct import distinct
    from pdflow.geometry.neighbors import NeighborSearch

    generator(seed)  # refuses what is no seed
    search = points
    if not isinstance(search, NeighborSearch):
        search = NeighborSearch(distinct(finite_points(search))[0])
    given = search.points
    if len(given) == 0:
        return NoiseEstimate(0.0, 0.0, 0.0, False)
    frame = unit_sphere(given)
    if len(given) <= REACH_SCALE:
        return NoiseEstimate(0.0, 0.0, _spacing_of_few(search), False)
    asked = stable_sample(given, frame, QUERIES, seed)
    queries = given[asked.rows]
    sq_distances, near = search.knn(queries, neighbors_of(len(given)))
    if not sq_distances[:, 1].all():  # duplicates
        return estimate_with(network, given, seed)
    seen = describe_neighbors(frame.apply(given[near]), frame.apply(queries))
    spacing = weighted_median(seen.nearest, asked.weights)
    level = _agree(network, seen, queries, asked.weights)
    level = _thinned(network, level, given, frame, len(given), seed)
    sigma = level.sigma
    return NoiseEstimate(
        sigma * frame.scale,
        sigma / max(1 - RADIUS_EXCESS * sigma, 0.5),
        spacing * frame.scale,
        len(given) >= FEW_POINTS,
        level.queries,
        level.local * frame.scale,
    )


class _Level(NamedTuple):
    """The noise at one density of a cloud, in its unit sphere.

    sigma    noise of the cloud
    ratio    sigma over the median reach
    queries  (Q, 3) in the cloud's own unit, and `local` (Q,), the noise at each
    """

    sigma: float
    ratio: float
    queries: FloatArray
    local: FloatArray


def _thinned(
    network: Network, level: _Level, points: FloatArray, frame: Frame, count: int, seed: int
) -> _Level:
    """The level, blended with that of a thinned cloud where it exceeds the neighbourhoods.

    points  (M, 3) all points of the cloud
    count   points, more or less, at the density of the level

    Between the two RATIOS both have a share, so that the result changes smoothly with the noise.
    """
    low, high = RATIOS
    share = min(max((level.ratio - low) / (high - low), 0.0), 1.0)
    if share == 0 or count <= FEWEST_THINNED:
        return level
    # The reach grows like count^(-1/2) on a surface and like count^(-1/3) in a volume.
    fewer = max(FEWEST_THINNED, int(count * (THINNED_RATIO / level.ratio) ** 2.5))
    left = stable_sample(points, frame, fewer, seed)
    asked = left.first(QUERIES / len(points))
    queries = points[asked.rows]
    seen = describe(frame.apply(points[left.rows]), frame.apply(queries))
    deeper = _agree(network, seen, queries, asked.weights)
    deeper = _thinned(network, deeper, points, frame, fewer, seed)
    if share == 1:
        return deeper
    return _Level(
        level.sigma ** (1 - share) * deeper.sigma**share,
        level.ratio,
        np.concatenate([level.queries, deeper.queries]),
        np.concatenate([level.local, deeper.local]),
    )


def _spacing_of_few(search: NeighborSearch) -> float:
    if len(search) < 2:
        return 0.0
    return float(np.sqrt(np.median(search.knn(search.points, 2)[0][:, 1])))


def _agree(
    network: Network, seen: Neighborhoods, queries: FloatArray, weights: FloatArray
) -> _Level:
    """What queries (Q, 3) with weights (Q,) say together.

    Each query is weighted by the network's certainty as well. Queries in isolated clumps, whose
    reach extends to another surface, do not count, unless there are no others.
    """
    log_ratio, log_spread = network.read(seen.description)
    local = np.maximum(np.exp(log_ratio) - OFFSET, 0) * seen.reach
    # The first column is the distance to neighbour SCALES[0] over the reach.
    low, high = LEAP
    on_surface = np.clip((np.exp(seen.description[:, 0]) - low) / (high - low), 0, 1)
    if not on_surface.any():
        on_surface[:] = 1.0
    sigma = weighted_median(local, weights * on_surface * np.exp(-2 * log_spread))
    sees = on_surface > 0
    reach = weighted_median(seen.reach, weights)
    return _Level(sigma, sigma / reach, queries[sees], local[sees])


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """The mean of the MIDDLE of the values, the share of all weight around the median.

    A single value never decides, so the result changes smoothly with values and weights.

    >>> weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 5.0]))
    2.0
    """
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    low, high = (0.5 - MIDDLE / 2) * total[-1], (0.5 + MIDDLE / 2) * total[-1]
    shares = np.clip(total, low, high)
    shares = np.diff(shares, prepend=low)
    return float((shares * values[order]).sum() / (high - low))
