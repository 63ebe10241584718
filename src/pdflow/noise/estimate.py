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

from pdflow.geometry.arrays import FloatArray, IntArray, finite_points
from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.seeds import generator
from pdflow.noise.neighborhoods import FLOOR as FLOOR
from pdflow.noise.neighborhoods import (
    REACH_SCALE,
    Neighborhoods,
    describe_neighbors,
    height,
    neighbors_of,
)
from pdflow.noise.neighborhoods import describe as describe
from pdflow.parallel import fill_rows, run_in_threads

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

LEAP = 0.1
"""A query whose smallest neighbourhood is within this share of its reach lies in an isolated clump;
on a surface that share is about half."""

NEARBY, UPPER, BELIEVED = 64, 0.75, 0.6
"""Local noise is the UPPER quantile over the NEARBY nearest queries times BELIEVED, if that exceeds
the cloud's noise; chosen on held-out shapes with noise in one direction and in all."""

LARGEST_RATIO = 0.65
"""Above this sigma / reach, the largest neighbourhood is too narrow and the cloud is thinned."""

THINNED_RATIO = 0.5
"""The sigma / reach that thinning aims at."""

FEWEST_THINNED = 5000
"""Clouds are not thinned below this number of points."""

RADIUS_EXCESS = 2.0
"""Noise widens the bounding sphere by about this many standard deviations (1.2 to 2.8)."""

_POINTS_PER_LAYER = 32_768
"""Points sorted together: enough that a thread pays off."""


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
    The order of rows and duplicates do not matter. A rotation selects other query points, which
    changes the estimate by about one percent.

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

    rng = generator(seed)
    search = points
    if not isinstance(search, NeighborSearch):
        search = NeighborSearch(distinct(finite_points(search))[0])
    given = search.points
    if len(given) == 0:
        return NoiseEstimate(0.0, 0.0, 0.0, False)
    frame = unit_sphere(given)
    if len(given) <= REACH_SCALE:
        return NoiseEstimate(0.0, 0.0, _spacing_of_few(search), False)
    heights = fill_rows(np.empty(len(given)), lambda part: height(frame.apply(given[part])))
    left = _sorted_rows(heights)
    asked = left[_strata(len(left), QUERIES, rng)]
    sq_distances, near = search.knn(given[asked], neighbors_of(len(given)))
    if not sq_distances[:, 1].all():  # duplicates
        return estimate_with(network, given, seed)
    queries = frame.apply(given[asked])
    seen = describe_neighbors(frame.apply(given[near]), queries)
    spacing = float(np.median(seen.nearest))
    local, sigma, ratio = _agree(network, seen)
    while ratio > LARGEST_RATIO and len(left) > FEWEST_THINNED:
        # The reach grows like count^(-1/2) on a surface and like count^(-1/3) in a volume.
        keep = max(FEWEST_THINNED, int(len(left) * (THINNED_RATIO / ratio) ** 2.5))
        left = left[np.sort(rng.permutation(len(left))[:keep])]
        cloud = frame.apply(given[left])
        queries = cloud[_strata(len(cloud), QUERIES, rng)]
        seen = describe(cloud, queries)
        local, sigma, ratio = _agree(network, seen)
    relative = sigma / max(1 - RADIUS_EXCESS * sigma, 0.5)
    sees = np.isfinite(local)
    return NoiseEstimate(
        sigma * frame.scale,
        relative,
        spacing * frame.scale,
        len(given) >= FEW_POINTS,
        frame.undo(queries[sees]),
        local[sees] * frame.scale,
    )


def _sorted_rows(values: FloatArray) -> IntArray:
    """(M,): rows in the order of their values (M,), sorted in layers on all cores."""
    some = np.sort(values[:: max(1, len(values) // 1024)])
    layers = max(1, len(values) // _POINTS_PER_LAYER)
    edges = [-np.inf, *some[np.arange(1, layers) * len(some) // layers], np.inf]
    sorted_layers = [np.empty(0, np.int64)] * layers

    def sort_layers(start: int, stop: int) -> None:
        for layer in range(start, stop):
            rows = np.flatnonzero((values >= edges[layer]) & (values < edges[layer + 1]))
            sorted_layers[layer] = rows[np.argsort(values[rows], kind="stable")]

    run_in_threads(sort_layers, layers, grain=1)
    return np.concatenate(sorted_layers)


def _strata(count: int, wanted: int, rng: np.random.Generator) -> IntArray:
    """Stratified rows, at most `wanted` of `count`: one at random from each of equal ranges."""
    if count <= wanted:
        return np.arange(count)
    return ((np.arange(wanted) + rng.random(wanted)) * (count / wanted)).astype(np.int64)


def _spacing_of_few(search: NeighborSearch) -> float:
    if len(search) < 2:
        return 0.0
    return float(np.sqrt(np.median(search.knn(search.points, 2)[0][:, 1])))


def _agree(network: Network, seen: Neighborhoods) -> tuple[FloatArray, float, float]:
    """The noise at each query (Q,), their weighted median, and its ratio to their median reach.

    Each query is weighted by the network's certainty. Queries in isolated clumps, whose reach
    extends to another surface, have no noise (NaN), unless there are no others.
    """
    log_ratio, log_spread = network.read(seen.description)
    local = np.maximum(np.exp(log_ratio) - OFFSET, 0) * seen.reach
    # The first column is the distance to neighbour SCALES[0] over the reach.
    on_surface = seen.description[:, 0] > np.log(LEAP)
    if not on_surface.any():
        on_surface[:] = True
    sigma = weighted_median(local[on_surface], np.exp(-2 * log_spread[on_surface]))
    local = np.where(on_surface, local, np.nan)
    return local, sigma, sigma / float(np.median(seen.reach))


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """The smallest value that, together with all smaller ones, has half of the total weight.

    >>> weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 5.0]))
    2.0
    """
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(total, 0.5 * total[-1])]])
