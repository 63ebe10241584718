"""Augmentation module A: D_a extra dimensions for every point, sampled from a conditional flow.

Eq. (6) and (18): p_bar = A(p, N(p)). The sample module A_s draws eps (B, N, D_a) from N(0, I), the
condition net A_c computes features of the neighbourhood N(p), and the transformation module A_t
maps eps to p_bar given these features (supplement, section B.1). The density of the result,
Eq. (19), is exact:

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
"""Log scale of eps at the start of a conditional affine map, so that the features outweigh eps."""


class AbsoluteCondition(nn.Module):
    """A_c of the released weights: a network on the positions of neighbours, then their mean.

    Maps points (B, N, D_p) to features (B, N, F).

    Paper: the text describes `EdgeCondition`.
    """

    def __init__(self, point_dims: int, hidden: int, features: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.lift = nn.Linear(point_dims, hidden)
        self.layers = nn.ModuleList([nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)])
        self.last = nn.Linear(hidden, features)

    def forward(self, points: Tensor, neighbours: Tensor) -> Tensor:
        """Features (B, N, F); layers before the mean depend on one point, so they run once each."""
        layers = (self.lift, *self.layers, self.last)
        tensors = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
        return neighbour_mean(points, neighbours[..., : self.k], ConditionWeights(*tensors))


class EdgeCondition(nn.Module):
    """A_c of the paper's text: an EdgeUnit with a mean over neighbours in place of the maximum.

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
    """A_c of our own networks: densely connected EdgeUnits, which do all the work on the graph.

    Maps points (B, N, D_p) to features (B, N, F). The input of each unit is the points and the
    outputs of all units before it, so the receptive field grows by one neighbourhood per unit.
    With these features in the augmented dimensions, the flow itself can be point-wise: the graph
    layers run once, not in both directions, and the likelihood stays exact.

    Paper: it has no such condition net.
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
    """A_t of our own networks: y = x exp(s) + mu, so that q(p_bar | p) is Gaussian.

    s and mu are linear in the condition features (B, N, F).

    Paper: it has couplings only.
    """

    def __init__(self, channels: int, features: int) -> None:
        super().__init__()
        self.net = nn.Linear(features, 2 * channels)
        nn.init.constant_(self.net.bias[channels:], INITIAL_LOG_SCALE)

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """y = x exp(s) + mu; the terms are s, summed over channels."""
        mu, log_scale = self.net(_given(context).to(x.dtype)).chunk(2, dim=-1)
        return x * torch.exp(log_scale) + mu, log_scale.sum(-1)

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """x = (y - mu) exp(-s)."""
        mu, log_scale = self.net(_given(context).to(y.dtype)).chunk(2, dim=-1)
        return (y - mu) * torch.exp(-log_scale), -log_scale.sum(-1)


class ConditionalCoupling(Bijection):
    """One coupling of A_t: y = (x + shift) sigmoid(scale) on one half of the channels.

    A network of the other half and of the condition features (B, N, F) gives shift and scale: a
    gated residual layer with concatenated ELU, an optional normalisation, and an output layer that
    starts at zero.
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
        """y = (x + shift) sigmoid(scale); the terms are sums of log sigmoid(scale)."""
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
        """Transform x (B, N, C), and add to the terms `total` (B, N).

        drawn    also add -log N(x; 0, I)
        squash   also apply the `Sigmoid` that follows this layer
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
        """State of the batch normalisation; in training, counts the batch."""
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
    """A_t of the paper: couplings and a sigmoid.

    As a chain it defines the map; `sample` computes the same, and the density, in fewer passes over
    the points.
    """

    def __init__(self, couplings: list[ConditionalCoupling]) -> None:
        super().__init__([*couplings, Sigmoid()])

    def sample(self, eps: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Transform eps ~ N(0, I): y (B, N, C) and the terms (B, N) of -log q(y), Eq. (19)."""
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
    """p_bar (B, N, D_a) for points (B, N, D_p), Eq. (6) and (18): A_c, then A_t.

    A_t is three couplings and a sigmoid, as in the paper, or one affine map of eps.

    Paper: the text puts permutation layers between the couplings; alternating halves, as in the
    released weights, do the same.
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
