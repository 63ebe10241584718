"""Scales: the answers of fine and of coarse patches in a first pass become one, point by point.

A coarse answer comes from partitions, whose patches reach farther and average more noise: better
where a surface is smooth, worse where it has detail. Around a point the noise that an answer took
away says which is the case, because noise has mean 0 and a known deviation, and detail does not. A
small network, fitted by `benchmarks/fit/fit_scales.py`, reads that from the nearest points of a
place and from the mean over a wider region.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.normals import diagonalise, least_and_most
from pdflow.geometry.partition import interleave
from pdflow.parallel import fill_rows, run_in_threads
from pdflow.pipeline.large import PROBE_STEP
from pdflow.pipeline.outliers.rule import Network, network_from

NEIGHBOURS = 64
"""Points, with the point itself, that say how well both answers fit."""

SIZES = (16, 64)
"""Sizes of the neighbourhoods in which residuals are compared; the last is NEIGHBOURS."""

PLANE = 32
"""Points that the normal is fitted to."""

AVERAGED = 64
"""Probes that a region has; every PROBE_STEP-th point is one."""

NUMBERS = 4 + 6 * len(SIZES)
"""Numbers that describe what lies around a point."""

APART = NUMBERS - 6
"""The number that says how far apart both answers are in the largest neighbourhood."""

BIAS = 5.0
"""Mean residual, in standard errors, that halves the weight of the coarse answer. One neighbourhood
in a thousand has more; with 8, training shapes are up to 1 % more accurate, and detail suffers."""

FLOOR = 0.01
"""Smallest length that is told from 0, in sigmas."""

LEAST_SIGMA = 1e-3
"""Smallest noise, in distances to the farthest neighbour: it hides rounding."""

_QUERIES_IN_CACHE, _POINTS_IN_MEMORY = 1024, 2**14


def blend_scales(
    noisy: FloatArray,
    fine: NeighborSearch,
    coarse: FloatArray,
    sigma: FloatArray,
    bounds: tuple[float, float] = (0.0, 1.0),
    probing: NDArray[np.bool_] | None = None,
    wanted: NDArray[np.bool_] | None = None,
) -> FloatArray:
    """Points (M, 3) between a fine and a coarse answer.

    noisy    (M, 3) points before the pass
    fine     search of the fine answer, row by row
    coarse   (M, 3) the coarse answer
    sigma    (M,) noise around each point
    bounds   least and greatest weight of the coarse answer
    probing  (M,) which points are probes; None for every PROBE_STEP-th along a curve
    wanted   (M,) which points are asked for; the others keep the fine answer; None for all
    """
    least, most = bounds
    asked = np.arange(len(fine)) if wanted is None else np.flatnonzero(wanted)
    blended = np.array(fine.points)
    if not most or not len(asked):
        return blended
    regions = Regions.of(noisy, fine, coarse, sigma, probing)
    for first in range(0, len(asked), _POINTS_IN_MEMORY):
        rows = asked[first : first + _POINTS_IN_MEMORY]
        numbers = describe_scales(noisy, fine, coarse, sigma, rows, regions)
        weight = least + (most - least) * coarse_weight(numbers, load_rule())
        blended[rows] += weight[:, None] * (coarse[rows] - blended[rows])
    return blended


def coarse_weight(numbers: FloatArray, network: Network) -> FloatArray:
    """(Q,): the weight of the coarse answer, 0 to 1, from what `describe_scales` says (Q, C).

    Where the residuals of the coarse answer lie on one side, and those of the fine one do not, the
    weight falls, whatever the network says: it was fitted to few surfaces with such detail.
    """
    weight = 1 / (1 + np.exp(-network.read(numbers)))
    for first in range(4, NUMBERS, 6):
        fine, coarse = np.exp(numbers[:, first + 2 : first + 4]).T
        weight /= 1 + np.maximum(coarse**2 - fine**2, 0) / BIAS**2
    return np.asarray(weight)


class Regions(NamedTuple):
    """Means over regions of a cloud.

    probes   search of the points that the regions lie around
    numbers  (Q, NUMBERS) means of the numbers of the nearest probes of each
    """

    probes: NeighborSearch
    numbers: FloatArray

    @staticmethod
    def of(
        noisy: FloatArray,
        fine: NeighborSearch,
        coarse: FloatArray,
        sigma: FloatArray,
        probing: NDArray[np.bool_] | None = None,
    ) -> Regions:
        """The regions of a cloud; arguments are those of `blend_scales`."""
        if probing is None or not probing.any():
            # The order of rows makes no difference here.
            rows = interleave(noisy, PROBE_STEP)[0]
        else:
            rows = np.flatnonzero(probing)
        probes = NeighborSearch(fine.points[rows])
        each = _numbers(noisy, fine, coarse, sigma, rows)
        near = probes.knn(probes.points, min(AVERAGED, len(probes)))[1]
        return Regions(
            probes, fill_rows(np.empty_like(each), lambda part: each[near[part]].mean(axis=1), 256)
        )


def describe_scales(
    noisy: FloatArray,
    fine: NeighborSearch,
    coarse: FloatArray,
    sigma: FloatArray,
    rows: IntArray,
    regions: Regions,
) -> FloatArray:
    """(Q, 2 * NUMBERS): what the network reads of some rows (Q,): the numbers of each point, then
    those of its region.

    Other arguments are those of `blend_scales`. The numbers are logarithms, with lengths in sigmas:
    the noise over the distance to the farthest neighbour; thickness and breadth of the mean of both
    answers; how far apart they are at the point; and, for each of SIZES, how far apart in the mean
    and their deviation, and of each answer the mean residual, in its standard errors, and the root
    mean square of residuals. A residual is how far a point was moved across the surface.
    """
    nearest = regions.probes.knn(fine.points[rows], 1)[1][:, 0]
    own = _numbers(noisy, fine, coarse, sigma, rows)
    return np.concatenate([own, regions.numbers[nearest]], axis=1)


def _numbers(
    noisy: FloatArray, fine: NeighborSearch, coarse: FloatArray, sigma: FloatArray, rows: IntArray
) -> FloatArray:
    """(Q, NUMBERS): the numbers of some rows (Q,)."""
    numbers, count = np.empty((len(rows), NUMBERS)), min(NEIGHBOURS, len(fine))

    def fill(start: int, stop: int) -> None:
        for first in range(start, stop, _QUERIES_IN_CACHE):
            part = slice(first, min(first + _QUERIES_IN_CACHE, stop))
            sq_distances, near = fine.knn(fine.points[rows[part]], count)
            reach = np.sqrt(sq_distances[:, -1])
            unit = np.maximum(sigma[rows[part]], np.maximum(LEAST_SIGMA * reach, 1e-150))
            _describe(noisy, fine.points, coarse, near, reach, unit, numbers[part])

    run_in_threads(fill, len(rows), grain=_QUERIES_IN_CACHE)
    return numbers


@functools.cache
def load_rule() -> Network:
    """The network shipped with the package: from numbers to the log odds of the coarse answer."""
    file = importlib.resources.files("pdflow.pipeline") / "scales.json"
    return network_from(json.loads(file.read_text("utf-8")))


@compiled
def _describe(
    noisy: FloatArray,
    fine: FloatArray,
    coarse: FloatArray,
    near: IntArray,
    reach: FloatArray,
    unit: FloatArray,
    numbers: FloatArray,
) -> None:
    """Compiled, so that each row depends on its own neighbours alone, bit for bit."""
    matrix, axes, middle = np.empty((3, 3)), np.empty((3, 3)), np.empty(3)
    count = near.shape[1]
    plane = min(PLANE, count)
    for row in range(len(near)):
        sigma = unit[row]
        for i in range(3):
            middle[i] = 0.0
            for k in range(plane):
                middle[i] += 0.5 * (fine[near[row, k], i] + coarse[near[row, k], i]) / plane
        for i in range(3):
            for j in range(i, 3):
                total = 0.0
                for k in range(plane):
                    a, b = fine[near[row, k]], coarse[near[row, k]]
                    total += (0.5 * (a[i] + b[i]) - middle[i]) * (0.5 * (a[j] + b[j]) - middle[j])
                matrix[i, j] = total / plane
                matrix[j, i] = matrix[i, j]
        diagonalise(matrix, axes)
        least, most = least_and_most(matrix)
        between = 3 - least - most
        numbers[row, 0] = math.log(sigma / max(reach[row], 1e-150))
        numbers[row, 1] = math.log(math.sqrt(max(matrix[least, least], 0.0)) / sigma + FLOOR)
        numbers[row, 2] = math.log(math.sqrt(max(matrix[between, between], 0.0)) / sigma + FLOOR)
        fine_sum, coarse_sum, sq_fine, sq_coarse, sq_apart = 0.0, 0.0, 0.0, 0.0, 0.0
        column, done = 4, 0
        for size in SIZES:
            last = min(size, count)
            for k in range(done, last):
                other = near[row, k]
                f, c = 0.0, 0.0
                for i in range(3):
                    f += (noisy[other, i] - fine[other, i]) * axes[i, least]
                    c += (noisy[other, i] - coarse[other, i]) * axes[i, least]
                f /= sigma
                c /= sigma
                if k == 0:
                    numbers[row, 3] = math.log(abs(f - c) + FLOOR)
                fine_sum += f
                coarse_sum += c
                sq_fine += f * f
                sq_coarse += c * c
                sq_apart += (f - c) * (f - c)
            done = last
            apart = (fine_sum - coarse_sum) / last
            deviation = math.sqrt(max(sq_apart / last - apart * apart, 0.0))
            numbers[row, column] = math.log(abs(apart) + FLOOR)
            numbers[row, column + 1] = math.log(deviation + FLOOR)
            numbers[row, column + 2] = math.log(abs(fine_sum) / math.sqrt(last) + FLOOR)
            numbers[row, column + 3] = math.log(abs(coarse_sum) / math.sqrt(last) + FLOOR)
            numbers[row, column + 4] = math.log(math.sqrt(sq_fine / last) + FLOOR)
            numbers[row, column + 5] = math.log(math.sqrt(sq_coarse / last) + FLOOR)
            column += 6
