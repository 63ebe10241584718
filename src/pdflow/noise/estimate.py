"""The noise level of a cloud, from the cloud alone.

Noise blurs a surface into a layer. A neighbourhood that is larger than the noise and smaller than
the shape shows how thick the layer is. The right size is not known beforehand, and at edges and
thin parts there is none. So `describe` describes each of two thousand query points at seven
neighbourhood sizes, by numbers that do not change with scale, place or rotation. How the residuals
of a fitted surface grow with the size tells noise from detail: independent noise is there at once,
noise that is correlated over some points grows and stops, detail goes on. A small network reads
this, for each query and in the context of all others. Its certainty weights the queries.

If the noise is wider than the largest neighbourhood, as in dense clouds, the cloud is thinned,
which does not change its noise, and estimated again.

docs/noise.md has the method in full, its accuracy, and what did not help.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pdflow.geometry.arrays import FloatArray, finite_points, generator
from pdflow.geometry.axes import OwnFrame
from pdflow.geometry.frame import unit_sphere
from pdflow.noise.network import Network, load_network, weighted_quantile
from pdflow.parallel import fill_rows

if TYPE_CHECKING:
    from pdflow.geometry.neighbors import NeighborSearch
    from pdflow.noise.neighborhoods import Neighborhoods
    from pdflow.noise.sampling import Sample

FEW_POINTS = 1000
"""In smaller clouds, the larger neighbourhoods cover half of the shape."""

FEWEST_POINTS = 30
"""Fewer points show no noise."""

QUERIES = 2000
"""Number of query points, more or less."""

QUERIES_AFTER = 1000
"""Query points where only the level is asked for: the noise that remains after a pass."""

LEAP = (0.08, 0.12)
"""A query whose smallest neighbourhood is within these shares of its reach lies, more or less, in
an isolated clump; on a surface that share is about half."""

NEARBY, PRIOR = 64, 4.0
"""Local noise is that of the NEARBY nearest queries, and of PRIOR further ones that show the
cloud's noise and are as certain as queries are on average."""

SAME, MOST_LOCAL = 1.25, 4.0
"""Local noise within the first factor of the cloud's may be chance; beyond, it differs by the rest.
More than the second is detail: range and grazing angle explain no more."""

RATIOS = (0.6, 0.7)
"""Between these sigma / reach, the largest neighbourhood becomes too narrow and a thinned cloud
takes over."""

THINNED_RATIO = 0.5
"""The sigma / reach that thinning aims at."""

FEWEST_THINNED = 5000
"""Clouds are not thinned below this number of points."""

MEAN_WEIGHT = 0.7
"""Of points in a thinned cloud."""

RADIUS_EXCESS = 2.0
"""Noise widens the bounding sphere by about this many standard deviations (1.2 to 2.8)."""

TOLD_APART, SURE = 0.75, 0.45
"""The kind of noise needs this probability, and an expected error of the level below SURE."""

KIND_FROM = 0.1
"""Noise below this many spacings shows no kind."""


@dataclass(frozen=True)
class NoiseEstimate:
    """The noise of a cloud, estimated from the cloud.

    sigma     standard deviation across the surface, in the cloud's own unit: the root of its mean
              square over the points
    relative  sigma over the radius of the bounding sphere of the clean shape; 0.01 is what papers
              call 1 %
    spacing   median distance from a point to its nearest neighbour, without duplicates
    reliable  False with fewer than 1000 distinct points, where sigma is rough; with fewer than 30,
              sigma is 0
    queries   (Q, 3) points where the noise was measured, `local` (Q,), the sigma at each, and
              `certainty` (Q,), how much each counts
    kind      "independent" from point to point; "correlated" over some neighbours, as in depth
              cameras and badly registered scans; "unclear" if noise cannot be told from detail, or
              one kind from the other; "none" if there is next to no noise; "given" by the caller
    error     expected error of sigma: 0.2 means a factor of 1.2 or less in about half of all cases
    correlated  probability that the noise is correlated, if there is any
    log_factors  (Q,) how much stronger than independent noise this one has to be smoothed around
              each query, as a logarithm; empty: everywhere as strong

    >>> rng = np.random.default_rng(0)
    >>> plane = rng.random((2000, 3)) * [1, 1, 0]
    >>> noise = estimate_noise(plane + 0.01 * rng.normal(size=(2000, 3)))
    >>> noise.reliable, round(noise.sigma, 2), noise.kind
    (True, 0.01, 'independent')
    >>> noise.at(np.array([[0.5, 0.5, 0.0]])).shape
    (1,)
    """

    sigma: float
    relative: float
    spacing: float
    reliable: bool
    queries: FloatArray = field(default_factory=lambda: np.empty((0, 3)), compare=False, repr=False)
    local: FloatArray = field(default_factory=lambda: np.empty(0), compare=False, repr=False)
    certainty: FloatArray = field(default_factory=lambda: np.empty(0), compare=False, repr=False)
    kind: str = "unclear"
    error: float = 1.0
    correlated: float = 0.5
    log_factors: FloatArray = field(default_factory=lambda: np.empty(0), compare=False, repr=False)

    def at(self, places: FloatArray) -> FloatArray:
        """(P,): the noise around places (P, 3).

        It differs from `sigma` where nearby queries are certain of more or less. Noise along rays
        does not show on surfaces along them, and grows with the range.
        """
        from pdflow.geometry.neighbors import knn

        everywhere = np.full(len(places), self.sigma)
        if not len(self.local) or self.sigma == 0:
            return everywhere
        sq_distances, near = knn(self.queries, places, min(NEARBY, len(self.local)))
        # Down to 0 at the farthest, so that the result changes smoothly with the place.
        weights = 1 - sq_distances / np.maximum(sq_distances[:, -1:], np.finfo(float).tiny)
        certainty = self.certainty if len(self.certainty) else np.ones(len(self.local))
        weights = weights * certainty[near]
        sq_local, total = (weights * self.local[near] ** 2).sum(axis=1), weights.sum(axis=1)

        def factor(prior: float | FloatArray) -> FloatArray:
            return np.asarray(np.sqrt((sq_local / self.sigma**2 + prior) / (total + prior)))

        # Detail looks like noise that nobody is certain of. Quiet places are never certain of how
        # little noise they have, and count as others do.
        more = np.clip(factor(PRIOR * certainty.mean()) / SAME, 1, MOST_LOCAL)
        less = np.minimum(factor(PRIOR * certainty[near].mean(axis=1)) * SAME, 1)
        return np.asarray(everywhere * less * more)

    def conditioning_at(self, places: FloatArray) -> FloatArray:
        """(P,): the independent noise that asks for as much smoothing around places (P, 3)."""
        from pdflow.noise.conditioning import average_nearby, certain, of_correlated

        levels = self.at(places)
        if not len(self.log_factors):
            return levels
        logs = average_nearby(places, self.queries, self.log_factors)
        return np.asarray(levels * np.exp(certain(logs) + of_correlated(self.correlated)))

    @property
    def sigma_over_spacing(self) -> float:
        """Noise relative to the distance between points; 0 if that distance is 0."""
        return self.sigma / self.spacing if self.spacing > 0 else 0.0


def estimate_noise(points: ArrayLike | NeighborSearch, seed: int = 0) -> NoiseEstimate:
    """The standard deviation of the noise on `points` (M, 3), across their surface.

    points  the cloud, or a search of its distinct points, whose tree is reused
    seed    chooses the query points

    The estimate scales with the cloud and does not change when the cloud moves, up to rounding.
    The order of rows and duplicates do not matter. A change of coordinates by 1e-7 of the cloud's
    size changes it by less than 0.1 %. A rotation changes the radius of the bounding box, in which
    `relative` is measured, but not sigma.

    >>> rng = np.random.default_rng(0)
    >>> plane = rng.random((3000, 3)) * [1, 1, 0]
    >>> noise = estimate_noise(plane + rng.normal(size=(3000, 3)) * 0.01)
    >>> bool(abs(noise.sigma / 0.01 - 1) < 0.1)
    True
    """
    return estimate_with(load_network(), points, seed)


def estimate_remaining(points: ArrayLike | NeighborSearch) -> NoiseEstimate:
    """`estimate_noise` of a denoised cloud, from half as many queries: nothing is smoothed by it,
    so it has no factors either."""
    return estimate_with(load_network(), points, 0, QUERIES_AFTER, with_factors=False)


def estimate_with(
    network: Network,
    points: ArrayLike | NeighborSearch,
    seed: int = 0,
    wanted: int = QUERIES,
    *,
    with_factors: bool = True,
) -> NoiseEstimate:
    """`estimate_noise` with another network, at about `wanted` queries."""
    from pdflow.geometry.distinct import distinct
    from pdflow.geometry.neighbors import NeighborSearch
    from pdflow.noise.conditioning import average_nearby, log_factors
    from pdflow.noise.neighborhoods import describe_neighbors, neighbors_of
    from pdflow.noise.sampling import stable_sample

    generator(seed)  # refuses what is no seed
    search = points
    if not isinstance(search, NeighborSearch):
        search = NeighborSearch(distinct(finite_points(search))[0])
    given = search.points
    if len(given) < FEWEST_POINTS:
        return NoiseEstimate(0.0, 0.0, _spacing_of_few(search), False)
    frame, own = unit_sphere(given), OwnFrame.of(given)
    asked = stable_sample(given, own, wanted, seed)
    queries = given[asked.rows]
    sq_distances, near = search.knn(queries, neighbors_of(len(given)))
    if not sq_distances[:, 1].all():  # duplicates
        return estimate_with(network, given, seed, wanted, with_factors=with_factors)
    seen = describe_neighbors(given, near, queries, unit=frame.scale)
    spacing = weighted_quantile(seen.nearest, asked.weights, 0.5)
    level = _agree(network, seen, queries, asked)
    level = _thinned(network, level, given, frame.scale, own, len(given), seed, wanted)
    factors = np.empty(0)
    if with_factors:
        factors = log_factors(seen, asked.weights, level.sigma, level.error)
        factors = average_nearby(level.queries, queries, factors)
    return NoiseEstimate(
        level.sigma * frame.scale,
        level.sigma / max(1 - RADIUS_EXCESS * level.sigma, 0.5),
        spacing * frame.scale,
        len(given) >= FEW_POINTS,
        level.queries,
        level.local * frame.scale,
        level.certainty,
        level.kind(spacing),
        level.error,
        level.correlated,
        factors,
    )


class _Level(NamedTuple):
    """The noise at one density of a cloud, in its unit sphere.

    sigma       noise of the cloud, and `error`, the expected error of its logarithm
    ratio       sigma over the median reach
    correlated  probability that the noise is correlated
    queries     (Q, 3) in the cloud's own unit, `local` (Q,), the noise at each, and `certainty`
                (Q,), how much each counts
    """

    sigma: float
    error: float
    ratio: float
    correlated: float
    queries: FloatArray
    local: FloatArray
    certainty: FloatArray

    def kind(self, spacing: float) -> str:
        """The `kind` of a NoiseEstimate, in a cloud of this spacing."""
        if self.sigma < KIND_FROM * spacing:
            return "none" if self.error < SURE else "unclear"
        if self.error > SURE or 1 - TOLD_APART < self.correlated < TOLD_APART:
            return "unclear"
        return "correlated" if self.correlated > 0.5 else "independent"


def _thinned(
    network: Network,
    level: _Level,
    points: FloatArray,
    unit: float,
    frame: OwnFrame,
    count: int,
    seed: int,
    wanted: int,
) -> _Level:
    """The level, blended with that of a thinned cloud where it exceeds the neighbourhoods.

    points  (M, 3) all points of the cloud, `unit`, their radius, and `frame`, their own
    count   points, more or less, at the density of the level
    wanted  queries, more or less

    Between the two RATIOS both have a share, so that the result changes smoothly with the noise.
    """
    from pdflow.geometry.neighbors import knn
    from pdflow.noise.neighborhoods import describe_neighbors, neighbors_of
    from pdflow.noise.sampling import stable_sample

    low, high = RATIOS
    share = min(max((level.ratio - low) / (high - low), 0.0), 1.0)
    if share == 0 or count <= FEWEST_THINNED:
        return level
    # The reach grows like count^(-1/2) on a surface and like count^(-1/3) in a volume.
    fewer = max(FEWEST_THINNED, int(count * (THINNED_RATIO / level.ratio) ** 2.5))
    left = stable_sample(points, frame, round(fewer / MEAN_WEIGHT), seed)
    thin = fill_rows(np.empty((len(left.rows), 3)), lambda part: points[left.rows[part]])
    asked = left.first(wanted / len(points))
    queries = points[asked.rows]
    near = knn(thin, queries, neighbors_of(len(thin), MEAN_WEIGHT))[1]
    seen = describe_neighbors(thin, near, queries, left.weights, unit)
    deeper = _agree(network, seen, queries, asked)
    deeper = _thinned(network, deeper, points, unit, frame, fewer, seed, wanted)
    if share == 1:
        return deeper
    return _Level(
        level.sigma ** (1 - share) * deeper.sigma**share,
        (1 - share) * level.error + share * deeper.error,
        level.ratio,
        (1 - share) * level.correlated + share * deeper.correlated,
        np.concatenate([level.queries, deeper.queries]),
        np.concatenate([level.local, deeper.local]),
        np.concatenate([(1 - share) * level.certainty, share * deeper.certainty]),
    )


def _spacing_of_few(search: NeighborSearch) -> float:
    if len(search) < 2:
        return 0.0
    return float(np.sqrt(np.median(search.knn(search.points, 2)[0][:, 1])))


def _agree(network: Network, seen: Neighborhoods, queries: FloatArray, asked: Sample) -> _Level:
    """What queries (Q, 3) say together.

    Queries in isolated clumps, whose reach extends to another surface, do not count, unless there
    are no others.
    """
    # The first column is the radius of the smallest neighbourhood over the reach.
    low, high = LEAP
    on_surface = np.clip((np.exp(seen.description[:, 0]) - low) / (high - low), 0, 1)
    weights = asked.weights * (on_surface if on_surface.any() else 1.0)
    reading = network.read(seen.description, seen.reach, weights)
    sigma = reading.level(weights)
    reach = weighted_quantile(seen.reach, asked.weights, 0.5)
    return _Level(
        sigma,
        reading.expected_error,
        sigma / reach,
        reading.correlated,
        queries,
        reading.local,
        weights * reading.certainty,
    )
