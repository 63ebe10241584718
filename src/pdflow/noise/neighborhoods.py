"""Describe neighbourhoods in a cloud by numbers that scale, place and rotation do not change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pdflow.geometry.arrays import FloatArray

SCALES: tuple[int, ...] = (9, 16, 29, 52, 94, 169, 304)
"""Sizes of the neighbourhoods in points, including the query."""

REACH_SCALE = 29
"""The distance to this neighbour, the `reach` of a query, is the unit of its description."""

SMALLEST_JET = 16
"""Fewer points cannot distinguish a quadratic surface from noise."""

FLOOR = 1e-3
"""Smallest length in a description, in reaches: it hides rounding."""

_QUERIES_IN_CACHE = 64


class Neighborhoods(NamedTuple):
    """Neighbourhoods of Q query points, which are points of the cloud.

    description  (Q, C) logarithms of numbers that do not change with scale, place or rotation
    reach        (Q,) distance to neighbour REACH_SCALE
    nearest      (Q,) distance to the nearest other point
    """

    description: FloatArray
    reach: FloatArray
    nearest: FloatArray


def height(points: FloatArray) -> FloatArray:
    """(...): position of points (..., 3) along a direction that no grid is aligned with."""
    # No matrix product: it may round equal rows differently.
    x, y, z = np.moveaxis(points, -1, 0)
    return np.asarray(x + 0.6180339887 * y + 0.4142135624 * z)


def describe(points: FloatArray, queries: FloatArray) -> Neighborhoods:
    """Describe the neighbourhoods of `queries` (Q, 3), which are some of `points` (M, 3).

    points  all distinct, M > REACH_SCALE
    """
    from pdflow.geometry.neighbors import knn

    return describe_neighbors(points[knn(points, queries, neighbors_of(len(points)))[1]], queries)


def neighbors_of(count: int) -> int:
    """Number of neighbours in a description, in a cloud of `count` points."""
    return min(SCALES[-1], count)


def describe_neighbors(neighbors: FloatArray, queries: FloatArray) -> Neighborhoods:
    """Describe neighbourhoods by the nearest points (Q, K, 3) of queries (Q, 3), in any order.

    For each of SCALES, and in units of the reach, the description holds

        distance to the farthest neighbour; standard deviations along the three principal axes,
        thinnest first; offset of the query from the mean along the thinnest; kurtosis along it

    and, from SMALLEST_JET points on, for the residuals of the best-fitting quadratic surface,

        standard deviation; kurtosis; size of the quadratic coefficients.
    """
    from pdflow.parallel import run_in_threads

    count, total, _ = neighbors.shape
    chunks: list[FloatArray] = [neighbors] * -(-count // _QUERIES_IN_CACHE)
    reach, nearest = np.empty(count), np.empty(count)

    def describe_chunks(start: int, stop: int) -> None:
        for chunk in range(start, stop):
            part = slice(chunk * _QUERIES_IN_CACHE, (chunk + 1) * _QUERIES_IN_CACHE)
            offsets = neighbors[part] - queries[part, None]
            x, y, z = np.moveaxis(offsets * offsets, 2, 0)
            sq_distances = x + y + z
            if not (sq_distances[:, 1:] > sq_distances[:, :-1]).all():
                # The position in space breaks ties, so the order of rows does not matter.
                order = np.lexsort((height(neighbors[part]), sq_distances))
                sq_distances = np.take_along_axis(sq_distances, order, axis=1)
                offsets = np.take_along_axis(offsets, order[..., None], axis=1)
            distances = np.sqrt(sq_distances)
            unit = distances[:, REACH_SCALE - 1]
            local = offsets / unit[:, None, None]
            columns: list[FloatArray] = []
            for scale in SCALES:
                # In a cloud smaller than a scale, the neighbourhood is the whole cloud.
                size = min(scale, total)
                columns.append(distances[:, size - 1] / unit)
                columns += _describe_scale(local[:, :size], jet=scale >= SMALLEST_JET)
            chunks[chunk] = np.log(np.stack(columns, axis=1))
            reach[part], nearest[part] = unit, distances[:, 1]

    run_in_threads(describe_chunks, len(chunks), grain=1)
    return Neighborhoods(np.concatenate(chunks), reach, nearest)


def _describe_scale(local: FloatArray, jet: bool) -> list[FloatArray]:
    """Columns (Q,) for neighbours (Q, K, 3) around queries at the origin."""
    count = local.shape[1]
    mean = local.mean(axis=1)
    centered = local - mean[:, None]
    variances, axes = np.linalg.eigh(centered.transpose(0, 2, 1) @ centered / (count - 1))
    rotated = centered @ axes
    height = rotated[:, :, 0]
    offset = (mean * axes[:, :, 0]).sum(axis=1)
    columns = [
        *np.sqrt(np.maximum(variances, 0) + FLOOR**2).T,
        np.sqrt(offset**2 + FLOOR**2),
        _kurtosis(height),
    ]
    if not jet:
        return columns
    width = np.sqrt(variances[:, 1] + variances[:, 2])[:, None]
    u, v = rotated[:, :, 1] / width, rotated[:, :, 2] / width
    terms = np.stack([np.ones_like(u), u, v, u * u, u * v, v * v], axis=1)
    # The small ridge helps where points lie on a line, which determines no surface.
    normal = terms @ terms.transpose(0, 2, 1) + 1e-6 * count * np.eye(6)
    coefficients = np.linalg.solve(normal, terms @ height[:, :, None])
    left = height - (coefficients.transpose(0, 2, 1) @ terms)[:, 0]
    sq_bend = (coefficients[:, 3:, 0] ** 2).sum(axis=1)
    sq_left = np.einsum("qk,qk->q", left, left)
    columns += [
        np.sqrt(sq_left / (count - 6) + FLOOR**2),
        _kurtosis(left),
        np.sqrt(sq_bend + FLOOR**2),
    ]
    return columns


def _kurtosis(values: FloatArray) -> FloatArray:
    """Kurtosis (Q,) of `values` (Q, K); that of a Gaussian, 3, if they are below FLOOR."""
    count = values.shape[1]
    squares = values * values
    second = squares.sum(axis=1) / count + FLOOR**2
    fourth = np.einsum("qk,qk->q", squares, squares) / count + 3 * FLOOR**4
    return np.asarray(fourth / second**2)
