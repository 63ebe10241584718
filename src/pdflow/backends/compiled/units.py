"""Layers and transformation units of a network as float32 arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from pdflow.flow.units import EdgeUnit, GroupedLinear, LinearUnit
from pdflow.kernels.dense import Array, Dense
from pdflow.kernels.edge.cpu import EdgeMax

Graph = NDArray[np.int64]
Wide = NDArray[np.float64]
Affine = tuple[Wide, Wide]
"""Weight (in, out) and bias (out,) of x @ weight + bias."""


def wide(tensor: Tensor) -> Wide:
    """A tensor as a float64 array."""
    return tensor.detach().cpu().numpy().astype(np.float64)


def linear(layer: nn.Linear) -> Affine:
    """The affine map of a layer."""
    return wide(layer.weight).T, wide(layer.bias)


def grouped(layer: GroupedLinear, group: int) -> Affine:
    """The affine map of one group of a layer."""
    return wide(layer.weight)[group], wide(layer.bias)[group]


def after(first: Affine, second: Affine) -> Affine:
    """The affine map that does `first`, then `second`.

    einsum, unlike @, starts no threads, which would spin on while patches are worked on.
    """
    weight = np.einsum("ij,jk->ik", first[0], second[0])
    return weight, np.einsum("j,jk->k", first[1], second[0]) + second[1]


def split_edges(weight: Wide, bias: Wide, width: int) -> Affine:
    """Weight (in, 2 width) and bias (2 width,) of centre and neighbour side by side.

    weight (3 in, H) and bias (H,) belong to the first layer of an EdgeUnit, which says why this
    is possible; channels from H to width are zero.
    """
    own, other, difference = np.split(weight, 3)
    sides = np.zeros((len(own), 2 * width))
    sides[:, : len(bias)] = own - difference
    sides[:, width : width + len(bias)] = other + difference
    return sides, np.concatenate([bias, np.zeros(2 * width - len(bias))])


def unit_groups(unit: EdgeUnit | LinearUnit) -> int:
    """2 for the unit of an affine coupling, 1 for an additive one."""
    last = unit.third if isinstance(unit, EdgeUnit) else unit.layers[-1]
    return len(last.bias)  # type: ignore[arg-type]


class CompiledUnit:
    """One group of a transformation unit: (N, inputs) -> (N, outputs)."""

    def __init__(self, unit: EdgeUnit | LinearUnit, group: int, flipped: bool = False) -> None:
        """`flipped` turns the channels around, both those that come in and those that go out."""
        way = slice(None, None, -1 if flipped else 1)
        self.edges: tuple[Dense, EdgeMax, int] | None = None
        if isinstance(unit, LinearUnit):
            layers = [grouped(layer, group) for layer in unit.layers]  # type: ignore[arg-type]
            layers[0] = layers[0][0][way], layers[0][1]
        else:
            second = EdgeMax(*grouped(unit.second, group))
            weight, bias = split_edges(*grouped(unit.first, group), second.width)
            self.edges = Dense([(weight[way], bias)]), second, unit.k
            layers = [grouped(unit.third, group)]
        layers[-1] = layers[-1][0][:, way], layers[-1][1][way]
        self.layers = Dense(layers)

    def __call__(self, x: Array, start: int, graph: Graph) -> Array:
        """(N, outputs) from the channels of x (N, C) that begin at `start`."""
        if self.edges is None:
            return self.layers(x, start)
        first, second, k = self.edges
        return self.layers(second(first(x, start), graph, k))
