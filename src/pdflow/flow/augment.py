"""Augmentation module: extra dimensions for every point, drawn by a conditional flow.

A_s samples eps (B, N, D_a), A_c looks at the neighbourhood, and A_t moves eps as A_c says
(supplement, section B.1). The density of the result, Eq. (19), is exact:

    log q(p_bar | p) = log p(eps) - log |d p_bar / d eps|
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, logsigmoid

from pdflow.flow.bijection import Bijection, Chain, Sigmoid
from pdflow.flow.units import EdgeUnit, GroupedLinear
from pdflow.kernels.affine import affine
from pdflow.kernels.grouped import grouped_product

CONDITIONS = ("absolute", "edge", "graph")
FLOWS = ("couplings", "affine")
NORMS = ("batch", "none")
LOG_SCALE_SPEED = 3.0
"""Factor on the learned log scale of the output layer, which lets it leave zero quickly."""


INITIAL_LOG_SCALE = -2.0
"""Log scale of eps at the start of a conditional affine map: the features speak louder."""


class AbsoluteCondition(nn.Module):
    """Condition net of the released weights: a network on neighbour positions, then their mean.

    Maps points (B, N, D_p) to features (B, N, F). Paper: the text describes `EdgeCondition`.
    """

    def __init__(self, point_dims: int, hidden: int, features: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.lift = nn.Linear(point_dims, hidden)
        self.layers = nn.ModuleList([nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)])
        self.last = nn.Linear(hidden, features)

    def forward(self, points: Tensor, neighbours: Tensor) -> Tensor:
        """Features (B, N, F); layers up to the mean see one neighbour each, so they run once."""
        h = self.lift(points)
        for layer in self.layers:
            h = torch.relu(layer(h))
        result: Tensor = self.last(gather_points(h, neighbours[..., : self.k]).mean(2))
        return result


class EdgeCondition(nn.Module):
    """Condition net of the paper's text: an EdgeUnit that averages where that takes the maximum.

    Maps points (B, N, D_p) to features (B, N, F).
    """

    def __init__(self, point_dims: int, hidden: int, features: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.first = GroupedLinear(1, 3 * point_dims, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, features)

    def forward(self, points: Tensor, neighbours: Tensor) -> Tensor:
        """Features (B, N, F); the first layer is split as in EdgeUnit."""
        own, other, difference = self.first.weight.chunk(3, dim=1)
        centre = grouped_product(points[None], own - difference, self.first.bias)[0]
        neighbour = grouped_product(points[None], other + difference)[0]
        edges = gather_points(neighbour, neighbours[..., : self.k])
        h = torch.relu(self.second(torch.relu(edges + centre[:, :, None])))
        result: Tensor = self.last(h.mean(2))
        return result


class GraphCondition(nn.Module):
    """Condition net that does all the graph work of a network: densely connected EdgeUnits.

    Maps points (B, N, D_p) to features (B, N, F). Each unit sees the points and the output of
    all units before it; its reach grows by one neighbourhood per unit. With these features in
    the augmented dimensions the flow itself can be point-wise, so the graph is looked at once
    instead of in both directions, and the likelihood stays exact.
    """

    def __init__(self, point_dims: int, hidden: int, features: int, k: int, layers: int) -> None:
        super().__init__()
        self.units = nn.ModuleList(
            EdgeUnit(point_dims + i * hidden, hidden, hidden, groups=1, k=k) for i in range(layers)
        )
        self.last = nn.Linear(point_dims + layers * hidden, features)

    def forward(self, points: Tensor, neighbours: Tensor) -> Tensor:
        """Features (B, N, F)."""
        known = points
        for unit in self.units:
            assert isinstance(unit, EdgeUnit)
            weight, bias = unit.third.layer
            pooled = unit.pool(known, neighbours)[0]
            known = torch.cat([known, affine(pooled, weight[0], bias[0], relu=True)], -1)
        result: Tensor = self.last(torch.relu(known))
        return result


class ConditionalAffine(Bijection):
    """y = x exp(s) + mu, both from condition features (B, N, F): a Gaussian q(p_bar | p)."""

    def __init__(self, channels: int, features: int) -> None:
        super().__init__()
        self.net = nn.Linear(features, 2 * channels)
        nn.init.constant_(self.net.bias[channels:], INITIAL_LOG_SCALE)

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """The log-determinant is the sum of s."""
        mu, log_scale = self.net(context).chunk(2, dim=-1)
        return x * torch.exp(log_scale) + mu, log_scale.sum(-1)

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """x = (y - mu) exp(-s)."""
        mu, log_scale = self.net(context).chunk(2, dim=-1)
        return (y - mu) * torch.exp(-log_scale), -log_scale.sum(-1)


class ConditionalCoupling(Bijection):
    """One coupling of A_t: y = (x + shift) sigmoid(scale) on one half of the channels.

    Shift and scale come from the other half and from the condition features (B, N, F), through
    a gated residual layer with concatenated ELU, an optional normalisation, and an output layer
    that starts at zero.
    """

    def __init__(self, channels: int, features: int, hidden: int, keep_first: bool, norm: str):
        super().__init__()
        first = channels // 2
        self.sizes = (first, channels - first)
        self.keep_first = keep_first
        kept, moved = self.sizes if keep_first else self.sizes[::-1]
        self.lift = nn.Linear(kept, hidden)
        self.inner = nn.Linear(2 * hidden, hidden)
        self.gate = nn.Linear(2 * hidden, 2 * hidden)
        self.condition = nn.Linear(2 * features, 2 * hidden)
        self.norm = nn.BatchNorm1d(hidden) if norm == "batch" else nn.Identity()
        self.last = nn.Linear(hidden, 2 * moved)
        self.log_scale = nn.Parameter(torch.zeros(2 * moved))
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """The log-determinant is the sum of log sigmoid(scale)."""
        kept, moved = self._split(x)
        shift, raw_scale = self._shift_and_scale(kept, context)
        moved = (moved + shift) * torch.sigmoid(raw_scale)
        return self._join(kept, moved), logsigmoid(raw_scale).sum(-1)

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """x = y / sigmoid(scale) - shift."""
        kept, moved = self._split(y)
        shift, raw_scale = self._shift_and_scale(kept, context)
        moved = moved * torch.exp(-logsigmoid(raw_scale)) - shift
        return self._join(kept, moved), -logsigmoid(raw_scale).sum(-1)

    def _split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first, second = x.split(self.sizes, dim=-1)
        return (first, second) if self.keep_first else (second, first)

    def _join(self, kept: Tensor, moved: Tensor) -> Tensor:
        return torch.cat([kept, moved] if self.keep_first else [moved, kept], -1)

    def _shift_and_scale(self, kept: Tensor, features: Tensor | None) -> tuple[Tensor, Tensor]:
        if features is None:
            raise ValueError("A conditional coupling needs condition features as its context.")
        h = self.lift(kept)
        gated = self.gate(_concat_elu(self.inner(_concat_elu(h))))
        value, gate = (gated + self.condition(_concat_elu(features))).chunk(2, dim=-1)
        h = h + value * torch.sigmoid(gate)
        h = self.norm(h.flatten(0, 1)).view_as(h)
        out = self.last(h) * torch.exp(LOG_SCALE_SPEED * self.log_scale)
        return out[..., 0::2], out[..., 1::2]


class Augmentation(nn.Module):
    """p_bar (B, N, D_a) for points (B, N, D_p): A_c, then A_t.

    A_t is three couplings and a sigmoid, as in the paper, or one affine map of eps.

    Paper: the text names permutation layers between the couplings; alternating halves, as in
    the released weights, do the same work.
    """

    def __init__(
        self,
        point_dims: int,
        channels: int,
        *,
        condition: str = "absolute",
        k: int = 12,
        condition_hidden: int = 32,
        condition_layers: int = 1,
        features: int = 64,
        hidden: int = 64,
        flow: str = "couplings",
        steps: int = 3,
        norm: str = "batch",
    ) -> None:
        super().__init__()
        shape = (point_dims, condition_hidden, features, k)
        self.condition: nn.Module
        if condition == "absolute":
            self.condition = AbsoluteCondition(*shape)
        elif condition == "edge":
            self.condition = EdgeCondition(*shape)
        else:
            self.condition = GraphCondition(*shape, condition_layers)
        couplings: list[Bijection] = [
            ConditionalCoupling(channels, features, hidden, keep_first=bool(i % 2), norm=norm)
            for i in range(steps)
        ]
        affine: list[Bijection] = [ConditionalAffine(channels, features)]
        self.flow = Chain([*couplings, Sigmoid()] if flow == "couplings" else affine)

    def forward(self, points: Tensor, neighbours: Tensor, eps: Tensor) -> tuple[Tensor, Tensor]:
        """p_bar (B, N, D_a) and the per-point terms (B, N) of log q(p_bar | points), Eq. (19)."""
        features = self.condition(points, neighbours)
        augmented, terms = self.flow.transform(eps, features)
        return augmented, standard_normal_log_density(eps) - terms


def standard_normal_log_density(x: Tensor) -> Tensor:
    """log N(x; 0, I) summed over channels: (B, N, C) -> (B, N)."""
    return -0.5 * (x.square() + math.log(2 * math.pi)).sum(-1)


def gather_points(x: Tensor, neighbours: Tensor) -> Tensor:
    """Rows of x (B, N, C) at neighbours (B, N, K) -> (B, N, K, C)."""
    batch, points, k = neighbours.shape
    index = neighbours.reshape(batch, points * k, 1).expand(-1, -1, x.shape[-1])
    return x.gather(1, index).view(batch, points, k, -1)


def _concat_elu(x: Tensor) -> Tensor:
    return elu(torch.cat([x, -x], -1))
