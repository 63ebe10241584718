"""The middle of an EdgeUnit on one core, fused: nothing of size N x K is ever stored."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.compiled import compiled
from pdflow.kernels.tile import COLUMNS, ROWS, Array, pack, padded, tile_max


class EdgeMax:
    """max_k relu(relu(centre_i + neighbour_j(i,k)) W + b) for one patch, as `edge.edge_max`."""

    def __init__(self, weight: NDArray[np.floating], bias: NDArray[np.floating]) -> None:
        """weight (H, H), bias (H,)."""
        self._width = len(bias)
        self._panels = pack(np.asarray(weight, np.float32))
        self._bias = np.asarray(bias, np.float32)

    def __call__(self, features: Array, graph: NDArray[np.int64], k: int) -> Array:
        """(N, H) from centre and neighbour side by side (N, 2 H), over k neighbours of a graph."""
        out = np.empty((len(features), padded(self._width)), np.float32)
        _run_edges(features, graph, k, self._panels, self._bias, out)
        return np.ascontiguousarray(out[:, : self._width])


def neighbour_mean(features: Array, graph: NDArray[np.int64], k: int) -> Array:
    """(N, C): mean of features (N, C) over the first k neighbours of a graph (N, >= k)."""
    out = np.zeros_like(features)
    _add_neighbours(features, graph, k, out)
    out /= np.float32(k)
    return out


@compiled
def _run_edges(
    features: Array, graph: NDArray[np.int64], k: int, panels: Array, bias: Array, out: Array
) -> None:
    """A tile is a few neighbours of one point. The last of them fills up the last tile: the
    maximum does not mind that it is there twice."""
    width, wide = len(bias), out.shape[1]
    zero = np.float32(0)
    hidden = np.empty(ROWS * width, np.float32)
    best = out.reshape(-1)
    for i in range(len(out)):
        centre, pooled = features[i, :width], out[i]
        pooled[:] = -np.inf
        for edge in range(0, k, ROWS):
            for r in range(ROWS):
                neighbour = features[graph[i, min(edge + r, k - 1)], width:]
                line = hidden[r * width : (r + 1) * width]
                for c in range(width):
                    line[c] = max(centre[c] + neighbour[c], zero)
            for c in range(0, wide, COLUMNS):
                tile_max(hidden, width, panels, c * width, best, i * wide + c)
        for c in range(width):
            pooled[c] = max(pooled[c] + bias[c], zero)


@compiled
def _add_neighbours(features: Array, graph: NDArray[np.int64], k: int, out: Array) -> None:
    for i in range(len(features)):
        for j in graph[i, :k]:
            for c in range(features.shape[1]):
                out[i, c] += features[j, c]
