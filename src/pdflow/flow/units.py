"""Transformation units: the networks inside couplings (supplement, Tables 6 and 7).

A coupling needs a scale and a shift of the same shape from the same input. So a unit has G groups
(2 in an affine coupling, 1 in an additive one) with stacked weights, and one product serves both.
Weights are (G, in, out), activations (G, B, N, H). The couplings run the units, by the kernels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from pdflow.kernels.edge import edge_pool
from pdflow.kernels.grouped import Layer

LAST_LAYER_STD = 0.05
"""Weights of the last layer start small, so that a fresh coupling is close to the identity."""


class GroupedLinear(nn.Module):
    """The layer of G groups: x (G | 1, B, N, in) -> (G, B, N, out)."""

    def __init__(self, groups: int, inputs: int, outputs: int, last: bool = False) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(groups, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(groups, outputs).uniform_(-bound, bound))
        if last:
            nn.init.normal_(self.weight, std=LAST_LAYER_STD)
            nn.init.zeros_(self.bias)

    @property
    def layer(self) -> Layer:
        """Weight (G, in, out) and bias (G, out), as the kernels take them."""
        return self.weight, self.bias


class LinearUnit(nn.Module):
    """Point-wise network of Table 7: layers C1, C2, C3 with relu, C4 without.

    Maps x (B, N, inputs) to (G, B, N, outputs).
    """

    def __init__(self, inputs: int, hidden: int, outputs: int, groups: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [
                GroupedLinear(groups, inputs, hidden),
                GroupedLinear(groups, hidden, hidden),
                GroupedLinear(groups, hidden, hidden),
                GroupedLinear(groups, hidden, outputs, last=True),
            ]
        )

    @property
    def stack(self) -> list[Layer]:
        """Weights and biases of the four layers."""
        return [layer.layer for layer in self.layers]  # type: ignore[misc]


class EdgeUnit(nn.Module):
    """EdgeConv network of Table 6 over the first `k` neighbours of each point.

    Maps x (B, N, inputs) to (G, B, N, outputs): layers F1 and F2 with relu act on each edge
    [h, n, n - h] between a point h and a neighbour n, Eq. (21), M1 takes the maximum over
    neighbours, and F3 maps it to the outputs.

    Paper: Eq. (21) prints h - n; the sign only renames the weights. The graph is one of positions,
    not of features, and the same in all blocks, so that the inverse can use it.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int, groups: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.inputs = inputs
        self.first = GroupedLinear(groups, 3 * inputs, hidden)
        self.second = GroupedLinear(groups, hidden, hidden)
        self.third = GroupedLinear(groups, hidden, outputs, last=True)

    def pool(
        self, x: Tensor, neighbours: Tensor | None, *, flip: bool = False
    ) -> tuple[Tensor, Tensor]:
        """(G, B, N, H), layers F1 to M1 of the first `inputs` channels of x; and x.

        neighbours  (B, N, >= k), nearest first
        flip        count channels from the last; `edge_pool` says why x is returned
        """
        if neighbours is None or neighbours.shape[-1] < self.k:
            have = 0 if neighbours is None else neighbours.shape[-1]
            raise ValueError(f"An EdgeUnit needs {self.k} neighbours per point, got {have}.")
        return edge_pool(
            x,
            neighbours[..., : self.k],
            self.first.layer,
            self.second.layer,
            inputs=self.inputs,
            flip=flip,
        )
