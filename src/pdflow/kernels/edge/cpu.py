"""Layers F2 and M1 of an EdgeUnit on one core, fused: nothing of size N x K is ever stored."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.compiled import compiled
from pdflow.kernels.dense.llvm import MARKS
from pdflow.kernels.dense.tile import (
    EDGE_COLUMNS,
    EDGE_ROWS,
    Array,
    pack,
    padded,
    tile_edges,
    tile_max,
)

Graph = NDArray[np.int64]


class EdgeMax:
    """max_k relu(relu(centre_i + neighbour_j(i,k)) W + b) for one patch, like `edge_max`.

    More than half of the channels are zero after the first relu, and mostly the same ones for
    neighbours of one point. The product skips channels that are zero for a whole tile of them.

    width  H, padded with channels of zeros to a multiple of MARKS
    """

    def __init__(self, weight: NDArray[np.floating], bias: NDArray[np.floating]) -> None:
        """weight (H, H), bias (H,)."""
        self.width = padded(len(bias), MARKS)
        square = np.zeros((self.width, self.width), np.float32)
        square[: len(bias), : len(bias)] = weight
        self._panels = pack(square, EDGE_COLUMNS)
        self._bias = np.zeros(self.width, np.float32)
        self._bias[: len(bias)] = bias

    def __call__(self, features: Array, graph: Graph, k: int) -> Array:
        """(N, width) from features (N, 2 width), centre then neighbour, and the first k neighbours
        of a graph (N, >= k)."""
        if k < EDGE_ROWS:
            # A repeated neighbour does not change the maximum.
            graph, k = graph.take(np.minimum(np.arange(EDGE_ROWS), k - 1), axis=1), EDGE_ROWS
        out = np.empty((len(features), self.width), np.float32)
        _run_edges(features.reshape(-1), graph, k, self._panels, self._bias, out)
        return out


def neighbour_mean(features: Array, graph: Graph, k: int) -> Array:
    """(N, C): mean of features (N, C) over the first k neighbours of a graph (N, >= k)."""
    out = np.zeros_like(features)
    _add_neighbours(features, graph, k, out)
    out /= np.float32(k)
    return out


@compiled
def _run_edges(
    features: Array, graph: Graph, k: int, panels: Array, bias: Array, out: Array
) -> None:
    """A tile is a few neighbours of one point; the last tile may overlap the one before."""
    points, width = out.shape
    hidden = np.empty(EDGE_ROWS * width, np.float32)
    marks = np.empty(width // MARKS, np.int64)
    edges, best = graph.reshape(-1), out.reshape(-1)
    for i in range(points):
        pooled = out[i]
        pooled[:] = -np.inf
        for edge in range(0, k, EDGE_ROWS):
            first = i * graph.shape[1] + min(edge, k - EDGE_ROWS)
            tile_edges(features, i, edges, first, width, hidden, marks)
            for c in range(0, width, EDGE_COLUMNS):
                tile_max(hidden, marks, width, panels, c * width, best, i * width + c)
        for c in range(width):
            pooled[c] = max(pooled[c] + bias[c], np.float32(0))


@compiled
def _add_neighbours(features: Array, graph: Graph, k: int, out: Array) -> None:
    for i in range(len(features)):
        for j in graph[i, :k]:
            for c in range(features.shape[1]):
                out[i, c] += features[j, c]
