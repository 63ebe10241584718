"""Flow blocks for inference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from pdflow.backends.compiled.units import Affine, CompiledUnit, Graph, Wide, unit_groups, wide
from pdflow.flow.actnorm import ActNorm
from pdflow.flow.bijection import Bijection, Chain
from pdflow.flow.coupling import Coupling
from pdflow.flow.permutation import InvertibleLinear
from pdflow.kernels.dense import Array, Dense

CONSTANT_SPAN = 0.001
"""Scales that move by no more than this are taken for constant: exp(s) then stays within 0.05 % of
its middle."""


@dataclass(frozen=True)
class Span:
    """Scales that a coupling took while it was watched.

    low, high, total  (C,) lowest and highest of each channel, and their sum
    count             values of a channel that were seen
    """

    low: Array
    high: Array
    total: Wide
    count: int

    @staticmethod
    def of(scales: Array) -> Span:
        """The span of scales (N, C)."""
        return Span(scales.min(0), scales.max(0), scales.sum(0, dtype=np.float64), len(scales))

    def __or__(self, other: Span) -> Span:
        return Span(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.total + other.total,
            self.count + other.count,
        )

    @property
    def constant(self) -> Array | None:
        """The mean (C,), where no channel moves by more than CONSTANT_SPAN."""
        if (self.high - self.low).max() > CONSTANT_SPAN:
            return None
        return (self.total / self.count).astype(np.float32)


@dataclass(frozen=True, eq=False)
class CompiledCoupling:
    """A coupling that moves some channels in place as others say.

    kept   first of the channels that are left alone
    moved  the channels that are not
    scale  the unit of an affine coupling, its constant output (C,), or nothing if additive
    """

    kept: int
    moved: slice
    shift: CompiledUnit
    scale: CompiledUnit | Array | None
    clamp: float

    @staticmethod
    def of(coupling: Coupling, channels: int, flipped: bool) -> CompiledCoupling:
        """A coupling of a network, or the one after a `Reverse` with the channels as before it."""
        kept = coupling.kept
        unit = coupling.unit
        groups = [CompiledUnit(unit, g, flipped) for g in range(unit_groups(unit))]
        moved = slice(0, channels - kept) if flipped else slice(kept, channels)
        scale = groups[0] if len(groups) == 2 else None
        return CompiledCoupling(
            channels - kept if flipped else 0, moved, groups[-1], scale, coupling.clamp
        )

    def encode(self, x: Array, graph: Graph, spans: Spans | None) -> None:
        """moved = (moved - shift) exp(-scale)."""
        scale = self._scale(x, graph, spans)
        moved = x[:, self.moved]
        moved -= self.shift(x, self.kept, graph)
        if scale is not None:
            moved *= np.exp(-scale)

    def decode(self, x: Array, graph: Graph, spans: Spans | None) -> None:
        """moved = moved exp(scale) + shift."""
        scale = self._scale(x, graph, spans)
        moved = x[:, self.moved]
        if scale is not None:
            moved *= np.exp(scale)
        moved += self.shift(x, self.kept, graph)

    def _scale(self, x: Array, graph: Graph, spans: Spans | None) -> Array | None:
        if not isinstance(self.scale, CompiledUnit):
            return self.scale
        scale = np.arctan(self.scale(x, self.kept, graph))
        scale *= np.float32(2 * self.clamp / math.pi)
        if spans is not None:
            span = Span.of(scale)
            spans[self] = spans[self] | span if self in spans else span
        return scale

    @property
    def has_scale_unit(self) -> bool:
        """Whether its scales depend on the points."""
        return isinstance(self.scale, CompiledUnit)

    def with_constant_scale(self, span: Span | None) -> CompiledCoupling:
        """The same with the mean of its scales in their place, if they are constant."""
        constant = None if span is None else span.constant
        return self if constant is None else replace(self, scale=constant)


Spans = dict[CompiledCoupling, Span]
"""What was seen of the scales of each affine coupling."""


def merge_spans(watched: Sequence[Spans]) -> Spans:
    """All that was seen."""
    merged: Spans = {}
    for spans in watched:
        for coupling, span in spans.items():
            merged[coupling] = merged[coupling] | span if coupling in merged else span
    return merged


@dataclass(frozen=True)
class CompiledBlock:
    """Permutation, actnorm, coupling 1, reverse, coupling 2, without the reverse.

    Channels come out of `encode` turned around, and go into `decode` like this; `mix` of the
    next block expects it.
    """

    mix: Dense
    unmix: Dense
    first: CompiledCoupling
    second: CompiledCoupling

    @staticmethod
    def of(block: Chain, outputs: int, is_first: bool) -> CompiledBlock:
        """A block of a network.

        outputs   channels that are wanted from `decode`
        is_first  whether its input is in the order of the network's
        """
        mixing, norm, first, _, second = block
        assert isinstance(norm, ActNorm)
        assert isinstance(first, Coupling)
        assert isinstance(second, Coupling)
        channels = len(norm.mu)
        forward, backward = _matrices(mixing, channels)
        mu, growth = wide(norm.mu), np.exp(wide(norm.sigma))
        way = slice(None, None, 1 if is_first else -1)
        mix: Affine = (forward / growth)[way], -mu / growth
        unmix: Affine = (
            (growth[:, None] * backward)[:, way][:, :outputs],
            (mu @ backward)[way][:outputs],
        )
        return CompiledBlock(
            Dense([mix]),
            Dense([unmix]),
            CompiledCoupling.of(first, channels, flipped=False),
            CompiledCoupling.of(second, channels, flipped=True),
        )

    def encode(self, x: Array, graph: Graph, spans: Spans | None) -> Array:
        """(N, C) from (N, C)."""
        x = self.mix(x)
        self.first.encode(x, graph, spans)
        self.second.encode(x, graph, spans)
        return x

    def decode(self, x: Array, graph: Graph, spans: Spans | None) -> Array:
        """(N, outputs) from (N, C), which is overwritten."""
        self.second.decode(x, graph, spans)
        self.first.decode(x, graph, spans)
        return self.unmix(x)

    def with_constant_scales(self, spans: Spans) -> CompiledBlock:
        """The same without the scale units that are constant."""
        return replace(
            self,
            first=self.first.with_constant_scale(spans.get(self.first)),
            second=self.second.with_constant_scale(spans.get(self.second)),
        )


def _matrices(mixing: Bijection, channels: int) -> tuple[Wide, Wide]:
    """Matrices A and B so that the layer is x @ A and its inverse y @ B.

    InvertibleLinear is unpacked here in float64, without torch, whose threads would spin on.
    """
    if isinstance(mixing, InvertibleLinear):
        packed = wide(mixing.lu)
        lower = np.tril(packed, -1) + np.eye(channels)
        upper = np.triu(packed, 1) + np.diag(wide(mixing.signs) * np.exp(np.diag(packed)))
        weight = np.empty_like(packed)
        weight[mixing.order.numpy()] = np.einsum("ij,jk->ik", lower, upper)
        return weight.T, np.linalg.inv(weight).T
    order = wide(mixing.transform(torch.arange(channels)[None, None], None)[0])[0, 0].astype(int)
    forward = np.eye(channels)[:, order]
    return forward, forward.T
