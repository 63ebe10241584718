"""The noise level of a cloud, from the cloud alone.

Gaussian noise blurs a surface into a layer. How thick the layer is can be seen in a neighbourhood
that is larger than the noise and smaller than the shape; which sizes those are is not known
beforehand, and at edges and thin parts there is none. So each of a thousand query points is
described at seven neighbourhood sizes by numbers that do not depend on scale, place or rotation
(`describe`), a small network (32 units, twice) reads from them the noise and how sure it is, and
the weighted median over the queries is the answer: places that cannot tell do not count.

Where the noise is wider than the largest neighbourhood, as in dense clouds, the cloud is thinned
at random, which leaves its noise as it is, and looked at again.

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
"""In clouds of fewer points the larger neighbourhoods are half of the shape."""

QUERIES = 1000
"""Points that are asked; twice as many take twice the time and are not more accurate."""

OFFSET = 0.01
"""The network says log(sigma / reach + OFFSET): finite without noise."""

LOG_SPREADS = (-2.0, 3.0)
"""How sure the network may be: places that it is very sure of must not outvote all others."""

LEAP = 0.1
"""Queries whose nearest neighbourhood is within this part of their reach lie in a clump apart;
on a surface it is about half."""

NEARBY, UPPER, BELIEVED = 64, 0.75, 0.6
"""Noise at a place: this share of that quantile of what so many queries around it say, if that is
more than the cloud's; chosen on held-out shapes with noise in one direction and in all."""

LARGEST_RATIO = 0.65
"""Above this sigma / reach the largest neighbourhood is too narrow, and the cloud is thinned."""

THINNED_RATIO = 0.5
"""The sigma / reach that thinning aims at."""

FEWEST_THINNED = 5000
"""Clouds are not thinned below this number of points."""

RADIUS_EXCESS = 2.0
"""Noise widens the bounding sphere by about this many standard deviations (1.2 to 2.8)."""


_POINTS_PER_LAYER = 32_768
"""Points that are sorted together: enough that a thread is worth its while."""


@dataclass(frozen=True)
class NoiseEstimate:
    """What a cloud says about its noise.

    sigma     standard deviation along each axis, in the cloud's own unit
    relative  sigma as a part of the radius of the bounding sphere, which is corrected for the
              noise in it; 0.01 is what papers call 1 %
    spacing   median distance from a point to the nearest other one, duplicates left out
    reliable  False where there were too few different points: fewer than 1000 for the larger
              neighbourhoods to be parts of the shape (sigma is rough), fewer than 30 for any
              (sigma is 0)
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
        """(P,): the noise around places (P, 3) of the cloud: sigma, or more where it is seen.

        Noise in one direction spares the surfaces along it, and most of a cloud may be quiet.
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
        """Noise beside the distances between points; 0 where the points have none."""
        return self.sigma / self.spacing if self.spacing > 0 else 0.0


def estimate_noise(points: ArrayLike | NeighborSearch, seed: int = 0) -> NoiseEstimate:
    """The standard deviation per axis of the Gaussian noise on `points` (M, 3).

    points  the cloud, or a search of its different points, whose tree is used
    seed    chooses the query points

    Scaling and moving the cloud scales and keeps the answer, up to rounding; the order of the
    rows and duplicates do not matter. A rotation chooses other query points, which moves the
    answer by a percent or so.

    >>> rng = np.random.default_rng(0)
    >>> plane = rng.random((3000, 3)) * [1, 1, 0]
    >>> noise = estimate_noise(plane + rng.normal(size=(3000, 3)) * 0.01)
    >>> bool(abs(noise.sigma / 0.01 - 1) < 0.1)
    True
    """
    return estimate_with(load_network(), points, seed)


class Network(NamedTuple):
    """What reads the noise from a description of C numbers.

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
        # Nothing far outside of what was fitted may lead to wild answers.
        x = np.clip((description - self.mean) / self.std, -5, 5)
        for weights, bias in self.layers[:-1]:
            x = x @ weights.T + bias
            x = 0.5 * x * (1 + np.tanh(0.5 * x))
        weights, bias = self.layers[-1]
        ratio, spread = (x @ weights.T + bias).T
        return ratio, np.clip(spread, *LOG_SPREADS)


def network_from(document: dict[str, Any]) -> Network:
    """The network of a document as `benchmarks/fit_noise_estimate.py` writes it."""
    layers = tuple(
        (np.array(layer["weights"]), np.array(layer["bias"])) for layer in document["layers"]
    )
    return Network(np.array(document["mean"]), np.array(document["std"]), layers)


@functools.cache
def load_network() -> Network:
    """The network that comes with the package."""
    file = importlib.resources.files("pdflow.noise") / "estimate.json"
    return network_from(json.loads(file.read_text("utf-8")))


def estimate_with(
    network: Network, points: ArrayLike | NeighborSearch, seed: int = 0
) -> NoiseEstimate:
    """`estimate_noise` with a network of one's own."""
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
    """Rows, at most `wanted` of `count`: one at random from each of as many equal ranges."""
    if count <= wanted:
        return np.arange(count)
    return ((np.arange(wanted) + rng.random(wanted)) * (count / wanted)).astype(np.int64)


def _spacing_of_few(search: NeighborSearch) -> float:
    if len(search) < 2:
        return 0.0
    return float(np.sqrt(np.median(search.knn(search.points, 2)[0][:, 1])))


def _agree(network: Network, seen: Neighborhoods) -> tuple[FloatArray, float, float]:
    """The noise that queries see (Q,), that they agree on, and its ratio to their median reach.

    Each query counts by how sure the network is of it; those in clumps of so few points that
    their reach leaps to another place see nothing (NaN), unless there are no others.
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
    """The smallest value that, with all smaller ones, has half of the weight.

    >>> weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 5.0]))
    2.0
    """
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(total, 0.5 * total[-1])]])
