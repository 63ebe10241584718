"""Augmentation module: extra dimensions for every point, drawn by a conditional flow.

A_s samples eps (B, N, D_a), A_c looks at the neighbourhood, and A_t moves eps as A_c says
(supplement, section B.1). The density of the result, Eq. (19), is exact:

    log q(p_bar | p) = log p(eps) - log |d p_bar / d eps|
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from pdflow.flow.bijection import Bijection, Chain, Sigmoid
from pdflow.flow.units import EdgeUnit, GroupedLinear
from pdflow.kernels.augmentation import gated_couple, neighbour_mean
from pdflow.kernels.augmentation.twin import gather_points, shift_and_scale
from pdflow.kernels.augmentation.weights import ConditionWeights, GatedWeights, Norm, Step
from pdflow.kernels.grouped import grouped_product
from pdflow.kernels.mixing import affine

CONDITIONS = ("absolute", "edge", "graph")
FLOWS = ("couplings", "affine")
NORMS = ("batch", "none")
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
        layers = (self.lift, *self.layers, self.last)
        tensors = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
        return neighbour_mean(points, neighbours[..., : self.k], ConditionWeights(*tensors))


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
            pooled, known = unit.pool(known, neighbours)
            known = torch.cat([known, affine(pooled[0], weight[0], bias[0], relu=True)], -1)
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
        mu, log_scale = self.net(_given(context).to(x.dtype)).chunk(2, dim=-1)
        return x * torch.exp(log_scale) + mu, log_scale.sum(-1)

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """x = (y - mu) exp(-s)."""
        mu, log_scale = self.net(_given(context).to(y.dtype)).chunk(2, dim=-1)
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
        y, terms, _ = self.couple(x, context, None)
        return y, terms

    def couple(
        self,
        x: Tensor,
        features: Tensor | None,
        total: Tensor | None,
        *,
        drawn: bool = False,
        squash: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Transform x (B, N, C), and add to the log-determinant terms `total` (B, N).

        drawn    add -log N(x; 0, I) to them
        squash   do what a `Sigmoid` after this layer would do
        returns  y, the terms, and the features for the next coupling (`gated_couple` says why)
        """
        return gated_couple(
            x,
            _given(features),
            self._weights(),
            self._norm(),
            Step(self.keep_first, drawn, squash),
            total,
        )

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """x = y / sigmoid(scale) - shift."""
        first, second = y.split(self.sizes, dim=-1)
        kept, moved = (first, second) if self.keep_first else (second, first)
        shift, scale = shift_and_scale(kept, _given(context), self._weights(), self._norm())
        moved = moved * torch.exp(-logsigmoid(scale)) - shift
        x = torch.cat([kept, moved] if self.keep_first else [moved, kept], -1)
        return x, -logsigmoid(scale).sum(-1)

    def _weights(self) -> GatedWeights:
        layers = (self.lift, self.inner, self.gate, self.condition)
        tensors = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
        has_norm = isinstance(self.norm, nn.BatchNorm1d)
        norm = [self.norm.weight, self.norm.bias] if has_norm else [None, None]
        return GatedWeights(*tensors, *norm, self.last.weight, self.last.bias, self.log_scale)  # type: ignore[call-arg]

    def _norm(self) -> Norm | None:
        """What batch normalisation knows; counts the batch."""
        norm = self.norm
        if not isinstance(norm, nn.BatchNorm1d):
            return None
        mean, var = norm.running_mean, norm.running_var
        assert norm.momentum is not None
        assert mean is not None
        assert var is not None
        if norm.training and norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
        return Norm(mean, var, norm.training, norm.momentum, norm.eps)


class GatedFlow(Chain):
    """Couplings and a sigmoid, in fewer passes over the points."""

    def __init__(self, couplings: list[ConditionalCoupling]) -> None:
        super().__init__([*couplings, Sigmoid()])

    def sample(self, eps: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Transform eps, drawn from N(0, I): y (B, N, C) and the terms (B, N) of -log q(y)."""
        *couplings, _ = self
        x, total = eps, None
        for i, coupling in enumerate(couplings, 1):
            assert isinstance(coupling, ConditionalCoupling)
            x, total, context = coupling.couple(
                x, context, total, drawn=i == 1, squash=i == len(couplings)
            )
        assert total is not None
        return x, total


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
        couplings = [
            ConditionalCoupling(channels, features, hidden, keep_first=bool(i % 2), norm=norm)
            for i in range(steps)
        ]
        self.flow = (
            GatedFlow(couplings)
            if flow == "couplings"
            else Chain([ConditionalAffine(channels, features)])
        )

    def forward(self, points: Tensor, neighbours: Tensor, eps: Tensor) -> tuple[Tensor, Tensor]:
        """p_bar (B, N, D_a) and the per-point terms (B, N) of log q(p_bar | points), Eq. (19)."""
        features = self.condition(points, neighbours)
        if isinstance(self.flow, GatedFlow):
            augmented, terms = self.flow.sample(eps, features)
            return augmented, -terms
        augmented, terms = self.flow.transform(eps, features)
        return augmented, standard_normal_log_density(eps) - terms


def standard_normal_log_density(x: Tensor) -> Tensor:
    """log N(x; 0, I) summed over channels: (B, N, C) -> (B, N)."""
    sq_norms: Tensor = torch.linalg.vector_norm(x, dim=-1).square()
    return -0.5 * (sq_norms + x.shape[-1] * math.log(2 * math.pi))


def _given(features: Tensor | None) -> Tensor:
    if features is None:
        raise ValueError("A conditional coupling needs condition features as its context.")
    return features
