"""Describe neighbourhoods in a cloud by numbers that scale, place and rotation do not change.

A neighbourhood of a given size is a ball that holds so many points. Points near its border count
less, down to nothing at the border, so that the numbers change smoothly when points move.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.normals import diagonalise
from pdflow.noise.network import FLOOR as FLOOR
from pdflow.parallel import run_in_threads

SCALES: tuple[int, ...] = (9, 16, 29, 52, 90, 156, 270)
"""Sizes of the neighbourhoods in points, including the query."""

NEIGHBORS = 304
"""Points that are searched: some more, because those at the border count in part."""

REACH_SCALE = 29
"""The radius of this neighbourhood, the `reach` of a query, is the unit of its description."""

SMALLEST_JET = 16
"""Fewer points cannot distinguish a quadratic surface from noise."""

COLUMNS, JET_COLUMNS = 6, 3
"""Numbers that describe a neighbourhood, and further ones from SMALLEST_JET points on."""

BORDER = 0.25
"""Share of a disc of points, next to the border of a neighbourhood, where weights fall to 0."""

_TERMS = 6
_RIDGE = 1e-6
_STEPS = 50


class Neighborhoods(NamedTuple):
    """Neighbourhoods of Q query points, which are points of the cloud.

    description  (Q, C) logarithms of numbers that do not change with scale, place or rotation
    reach        (Q,) radius of the neighbourhood of REACH_SCALE points
    nearest      (Q,) distance to the nearest other point
    """

    description: FloatArray
    reach: FloatArray
    nearest: FloatArray


def neighbors_of(count: int, weight: float = 1.0) -> int:
    """Number of neighbours in a description, in a cloud of `count` points of this mean weight."""
    return min(math.ceil(NEIGHBORS / weight), count)


def describe(points: FloatArray, queries: FloatArray) -> Neighborhoods:
    """Describe the neighbourhoods of `queries` (Q, 3), which are some of `points` (M, 3).

    points  all distinct, M > REACH_SCALE
    """
    from pdflow.geometry.neighbors import knn

    near = knn(points, queries, neighbors_of(len(points)))[1]
    return describe_neighbors(points, near, queries)


def describe_neighbors(
    points: FloatArray,
    near: IntArray,
    queries: FloatArray,
    weights: FloatArray | None = None,
    unit: float = 1.0,
) -> Neighborhoods:
    """Describe neighbourhoods by the nearest points of queries (Q, 3).

    near     (Q, K) rows of `points` (M, 3), nearest first
    weights  (M,) how much each point counts, from 0 to 1; None counts all alike
    unit     of the reach and the nearest distance

    For each of SCALES, and in units of the reach, the description holds

        radius; standard deviations along the three principal axes, thinnest first; offset of the
        query from the mean along the thinnest; kurtosis along it

    and, from SMALLEST_JET points on, for the residuals of the best-fitting quadratic surface,

        standard deviation; kurtosis; size of the quadratic coefficients.
    """
    count = len(queries)
    jets = sum(scale >= SMALLEST_JET for scale in SCALES)
    description = np.empty((count, COLUMNS * len(SCALES) + JET_COLUMNS * jets))
    reach, nearest = np.empty(count), np.empty(count)
    each = np.ones(len(points)) if weights is None else weights
    run_in_threads(
        _describe_range, count, points, near, queries, each, unit,
        np.array(SCALES, np.float64), description, reach, nearest, grain=32,
    )  # fmt: skip
    return Neighborhoods(description, reach, nearest)


@compiled
def _describe_range(
    start: int,
    stop: int,
    points: FloatArray,
    near: IntArray,
    queries: FloatArray,
    weights: FloatArray,
    unit: float,
    scales: FloatArray,
    description: FloatArray,
    reach: FloatArray,
    nearest: FloatArray,
) -> None:
    """Describe queries `start` to `stop - 1`, each in its row of the last three arrays."""
    total = near.shape[1]
    local = np.empty((total, 3))
    sq, given, counted, heights, u, v = np.empty((6, total))
    radii = np.empty(len(scales))
    for query in range(start, stop):
        for k in range(total):
            row = near[query, k]
            given[k] = weights[row]
            sq[k] = 0.0
            for i in range(3):
                local[k, i] = (points[row, i] - queries[query, i]) / unit
                sq[k] += local[k, i] * local[k, i]
        own = 1.0
        for s in range(len(scales)):
            radii[s] = math.sqrt(_sq_radius(sq, given, scales[s]))
            if scales[s] == REACH_SCALE:
                own = radii[s]
        reach[query], nearest[query] = own, math.sqrt(sq[1])
        for k in range(total):
            sq[k] /= own * own
            for i in range(3):
                local[k, i] /= own
        column = 0
        for s in range(len(scales)):
            radius = radii[s] / own
            size = _count_inside(sq, given, radius * radius, counted)
            row_of = description[query, column:]
            row_of[0] = math.log(radius)
            jet = scales[s] >= SMALLEST_JET
            _describe_ball(local, counted, size, jet, heights, u, v, row_of)
            column += COLUMNS + JET_COLUMNS if jet else COLUMNS


@compiled
def _sq_radius(sq: FloatArray, weights: FloatArray, scale: float) -> float:
    """Squared radius of the ball that holds `scale` points, those near its border counted in part.

    sq  (K,) squared distances, ascending

    In a smaller cloud, the ball that holds all of it. Newton's method, kept within bounds.
    """
    wanted = scale * (1.0 - 0.5 * BORDER)
    low, high = 0.0, sq[-1]
    radius: float = sq[min(int(scale), len(sq)) - 1]
    for _ in range(_STEPS):
        held, growth, k = 0.0, 0.0, 0
        while k < len(sq) and sq[k] < radius:
            inner = (1.0 - sq[k] / radius) / BORDER
            if inner < 1.0:
                held += weights[k] * inner
                growth += weights[k] * sq[k] / (radius * radius * BORDER)
            else:
                held += weights[k]
            k += 1
        if abs(held - wanted) < 1e-9 * wanted:
            break
        if held > wanted:
            high = radius
        elif radius >= sq[-1]:
            break
        else:
            low = radius
        radius += (wanted - held) / max(growth, 1e-300)
        if radius >= high:
            radius = high if high == sq[-1] else 0.5 * (low + high)
        elif radius <= low:
            radius = 0.5 * (low + high)
    return radius


@compiled
def _count_inside(sq: FloatArray, given: FloatArray, sq_radius: float, counted: FloatArray) -> int:
    """Weights of the points in a ball, less near its border, and how many there are."""
    size = 0
    while size < len(sq) and sq[size] < sq_radius:
        inner = (1.0 - sq[size] / sq_radius) / BORDER
        counted[size] = given[size] * min(inner, 1.0)
        size += 1
    return size


@compiled
def _describe_ball(
    local: FloatArray,
    weights: FloatArray,
    size: int,
    jet: bool,
    heights: FloatArray,
    u: FloatArray,
    v: FloatArray,
    row: FloatArray,
) -> None:
    """Fill a row from its second column on with what describes the first `size` points."""
    weight, sq_weight = 0.0, 0.0
    mean, cov, axes = np.zeros(3), np.zeros((3, 3)), np.empty((3, 3))
    for k in range(size):
        weight += weights[k]
        sq_weight += weights[k] * weights[k]
        for i in range(3):
            mean[i] += weights[k] * local[k, i]
    weight = max(weight, 1e-300)
    effective = weight * weight / max(sq_weight, 1e-300)
    for i in range(3):
        mean[i] /= weight
    for k in range(size):
        x, y, z = local[k, 0] - mean[0], local[k, 1] - mean[1], local[k, 2] - mean[2]
        cov[0, 0] += weights[k] * x * x
        cov[0, 1] += weights[k] * x * y
        cov[0, 2] += weights[k] * x * z
        cov[1, 1] += weights[k] * y * y
        cov[1, 2] += weights[k] * y * z
        cov[2, 2] += weights[k] * z * z
    cov[1, 0], cov[2, 0], cov[2, 1] = cov[0, 1], cov[0, 2], cov[1, 2]
    diagonalise(cov, axes)
    a, b, c = 0, 1, 2  # axes from the thinnest to the widest
    if cov[b, b] < cov[a, a]:
        a, b = b, a
    if cov[c, c] < cov[b, b]:
        b, c = c, b
    if cov[b, b] < cov[a, a]:
        a, b = b, a
    freedom = effective / max(effective - 1.0, 1.0) / weight
    floor = FLOOR * FLOOR
    row[1] = 0.5 * math.log(max(cov[a, a], 0.0) * freedom + floor)
    row[2] = 0.5 * math.log(max(cov[b, b], 0.0) * freedom + floor)
    row[3] = 0.5 * math.log(max(cov[c, c], 0.0) * freedom + floor)
    offset = mean[0] * axes[0, a] + mean[1] * axes[1, a] + mean[2] * axes[2, a]
    row[4] = 0.5 * math.log(offset * offset + floor)
    width = math.sqrt(max(cov[b, b] + cov[c, c], 1e-300) * freedom)
    for k in range(size):
        x, y, z = local[k, 0] - mean[0], local[k, 1] - mean[1], local[k, 2] - mean[2]
        heights[k] = x * axes[0, a] + y * axes[1, a] + z * axes[2, a]
        u[k] = (x * axes[0, b] + y * axes[1, b] + z * axes[2, b]) / width
        v[k] = (x * axes[0, c] + y * axes[1, c] + z * axes[2, c]) / width
    row[5] = _log_kurtosis(heights, weights, size)
    if not jet:
        return
    bend = _subtract_quadratic(heights, u, v, weights, size)
    left = 0.0
    for k in range(size):
        left += weights[k] * heights[k] * heights[k]
    freedom = effective / max(effective - _TERMS, 1.0)
    row[6] = 0.5 * math.log(left / weight * freedom + floor)
    row[7] = _log_kurtosis(heights, weights, size)
    row[8] = 0.5 * math.log(bend + floor)


@compiled
def _log_kurtosis(values: FloatArray, weights: FloatArray, size: int) -> float:
    """Logarithm of the kurtosis; that of a Gaussian, 3, if values are below FLOOR."""
    weight, second, fourth = 0.0, 0.0, 0.0
    for k in range(size):
        sq = values[k] * values[k]
        weight += weights[k]
        second += weights[k] * sq
        fourth += weights[k] * sq * sq
    second = second / weight + FLOOR**2
    return math.log((fourth / weight + 3.0 * FLOOR**4) / (second * second))


@compiled
def _subtract_quadratic(
    heights: FloatArray, u: FloatArray, v: FloatArray, weights: FloatArray, size: int
) -> float:
    """Leave the residuals of the best-fitting quadratic surface over (u, v) in `heights`.

    Returns the sum of the squared quadratic coefficients.
    """
    normal, right, terms = np.zeros((_TERMS, _TERMS)), np.zeros(_TERMS), np.empty(_TERMS)
    weight = 0.0
    for k in range(size):
        _fill_terms(u[k], v[k], terms)
        weight += weights[k]
        for i in range(_TERMS):
            scaled = weights[k] * terms[i]
            right[i] += scaled * heights[k]
            for j in range(i, _TERMS):
                normal[i, j] += scaled * terms[j]
    # The small ridge helps where points lie on a line, which determines no surface.
    for i in range(_TERMS):
        normal[i, i] += _RIDGE * weight
    _solve_symmetric(normal, right)
    for k in range(size):
        _fill_terms(u[k], v[k], terms)
        for i in range(_TERMS):
            heights[k] -= right[i] * terms[i]
    bend: float = right[3] * right[3] + right[4] * right[4] + right[5] * right[5]
    return bend


@compiled
def _fill_terms(u: float, v: float, terms: FloatArray) -> None:
    terms[0], terms[1], terms[2] = 1.0, u, v
    terms[3], terms[4], terms[5] = u * u, u * v, v * v


@compiled
def _solve_symmetric(matrix: FloatArray, right: FloatArray) -> None:
    """Solve a positive definite system in place: the upper half of a matrix and the right side."""
    count = len(right)
    for i in range(count):
        for j in range(i + 1, count):
            factor = matrix[i, j] / matrix[i, i]
            for k in range(j, count):
                matrix[j, k] -= factor * matrix[i, k]
            right[j] -= factor * right[i]
    for i in range(count - 1, -1, -1):
        for j in range(i + 1, count):
            right[i] -= matrix[i, j] * right[j]
        right[i] /= matrix[i, i]
