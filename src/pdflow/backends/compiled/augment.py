"""The augmentation module for inference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import nn

from pdflow.backends.compiled.units import (
    Affine,
    CompiledUnit,
    Graph,
    Wide,
    after,
    grouped,
    linear,
    split_edges,
    wide,
)
from pdflow.flow.augment import (
    AbsoluteCondition,
    Augmentation,
    ConditionalAffine,
    ConditionalCoupling,
    EdgeCondition,
    GraphCondition,
)
from pdflow.kernels.augmentation.weights import LOG_SCALE_SPEED
from pdflow.kernels.dense import Array, Dense
from pdflow.kernels.edge.cpu import neighbour_mean

Condition = Callable[[Array, Graph], Array]


class CompiledAugmentation:
    """p_bar (N, D_a) for points (N, D_p) and eps (N, D_a)."""

    def __init__(self, augmentation: Augmentation) -> None:
        steps = list(augmentation.flow)
        condition = augmentation.condition
        assert isinstance(condition, AbsoluteCondition | EdgeCondition | GraphCondition)
        last = linear(condition.last)
        self.couplings: list[CompiledConditionalCoupling] = []
        if isinstance(steps[0], ConditionalAffine):
            last = after(last, linear(steps[0].net))
        else:
            couplings = [step for step in steps if isinstance(step, ConditionalCoupling)]
            self.couplings = [CompiledConditionalCoupling(coupling) for coupling in couplings]
        self.condition = _condition(condition, last)

    def __call__(self, points: Array, graph: Graph, eps: Array) -> Array:
        """p_bar (N, D_a)."""
        features = self.condition(points, graph)
        if not self.couplings:
            channels = eps.shape[1]
            return eps * np.exp(features[:, channels:]) + features[:, :channels]
        x = eps.copy()
        both = _concat_elu(features)
        for coupling in self.couplings:
            coupling.transform(x, both)
        return _sigmoid(x)


def _condition(net: AbsoluteCondition | EdgeCondition | GraphCondition, last: Affine) -> Condition:
    """A condition net whose last layer is `last`."""
    if isinstance(net, AbsoluteCondition):
        return CompiledAbsoluteCondition(net, last)
    if isinstance(net, EdgeCondition):
        return CompiledEdgeCondition(net, last)
    return CompiledGraphCondition(net, last)


class CompiledAbsoluteCondition:
    """`AbsoluteCondition`: (N, D_p) -> (N, F)."""

    def __init__(self, net: AbsoluteCondition, last: Affine) -> None:
        layers = [linear(layer) for layer in net.layers]  # type: ignore[arg-type]
        layers[0] = after(linear(net.lift), layers[0])
        self.k = net.k
        self.layers = Dense(layers)
        self.last = Dense([last])

    def __call__(self, points: Array, graph: Graph) -> Array:
        """Features (N, F)."""
        h = self.layers(points)
        np.maximum(h, 0, out=h)
        return self.last(neighbour_mean(h, graph, self.k))


class CompiledEdgeCondition:
    """`EdgeCondition`: (N, D_p) -> (N, F)."""

    def __init__(self, net: EdgeCondition, last: Affine) -> None:
        self.k = net.k
        self.first = Dense([split_edges(*grouped(net.first, 0), net.second.in_features)])
        self.second = Dense([linear(net.second)])
        self.last = Dense([last])

    def __call__(self, points: Array, graph: Graph) -> Array:
        """Features (N, F)."""
        centre, neighbour = np.split(self.first(points), 2, axis=1)
        edges = centre[:, None] + neighbour[graph[:, : self.k]]
        np.maximum(edges, 0, out=edges)
        h = self.second(edges.reshape(-1, edges.shape[2])).reshape(edges.shape)
        np.maximum(h, 0, out=h)
        return self.last(h.mean(1))


class CompiledGraphCondition:
    """`GraphCondition`: (N, D_p) -> (N, F)."""

    def __init__(self, net: GraphCondition, last: Affine) -> None:
        self.units = [CompiledUnit(unit, 0) for unit in net.units]  # type: ignore[arg-type]
        self.last = Dense([last])
        self.width = net.last.in_features

    def __call__(self, points: Array, graph: Graph) -> Array:
        """Features (N, F); what a unit knows stands beside what the units before it knew."""
        known = np.empty((len(points), self.width), np.float32)
        end = points.shape[1]
        known[:, :end] = points
        for unit in self.units:
            result = unit(known, 0, graph)
            start, end = end, end + result.shape[1]
            np.maximum(result, 0, out=known[:, start:end])
        np.maximum(known, 0, out=known)
        return self.last(known)


class CompiledConditionalCoupling:
    """`ConditionalCoupling`, in place, from features after their concatenated ELU."""

    def __init__(self, coupling: ConditionalCoupling) -> None:
        first, second = coupling.sizes
        halves = slice(0, first), slice(first, first + second)
        self.kept, self.moved = halves if coupling.keep_first else halves[::-1]
        self.lift = Dense([linear(coupling.lift)])
        self.inner = Dense([linear(coupling.inner)])
        self.gate = Dense([linear(coupling.gate)])
        self.condition = Dense([linear(coupling.condition)])
        growth = np.exp(LOG_SCALE_SPEED * wide(coupling.log_scale))
        weight, bias = _after_normalisation(coupling.norm, linear(coupling.last))
        apart = np.r_[0 : len(growth) : 2, 1 : len(growth) : 2]
        self.last = Dense([((weight * growth)[:, apart], (bias * growth)[apart])])

    def transform(self, x: Array, features: Array) -> None:
        """moved = (moved + shift) sigmoid(scale)."""
        h = self.lift(x, self.kept.start)
        gated = self.gate(_concat_elu(self.inner(_concat_elu(h))))
        gated += self.condition(features)
        value, gate = np.split(gated, 2, axis=1)
        value *= _sigmoid(gate)
        h += value
        shift, scale = np.split(self.last(h), 2, axis=1)
        x[:, self.moved] += shift
        x[:, self.moved] *= _sigmoid(scale)


def _after_normalisation(norm: nn.Module, layer: Affine) -> Affine:
    """A layer that does batch normalisation, with the statistics of the training, before it."""
    if not isinstance(norm, nn.BatchNorm1d):
        return layer
    assert norm.running_mean is not None
    assert norm.running_var is not None
    factor: Wide = wide(norm.weight) / np.sqrt(wide(norm.running_var) + norm.eps)
    shift: Wide = wide(norm.bias) - wide(norm.running_mean) * factor
    return factor[:, None] * layer[0], shift @ layer[0] + layer[1]


def _concat_elu(x: Array) -> Array:
    """elu of [x, -x]: (N, C) -> (N, 2 C). One of each pair is negative, so one exp serves both."""
    below = np.abs(x)
    np.negative(below, out=below)
    np.exp(below, out=below)
    below -= 1
    channels = x.shape[1]
    both = np.empty((len(x), 2 * channels), np.float32)
    np.maximum(x, below, out=both[:, :channels])
    np.maximum(-x, below, out=both[:, channels:])
    return both


def _sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), as a tanh, which cannot overflow."""
    result: Array = np.tanh(x * np.float32(0.5))
    result *= np.float32(0.5)
    result += np.float32(0.5)
    return result
