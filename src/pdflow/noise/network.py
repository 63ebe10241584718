"""The network that reads noise levels from descriptions of neighbourhoods.

Two layers see one query each. What they see and find is pooled over all queries (mean and standard
deviation), which gives the context: how a cloud's detail, sampling and noise look as a whole. A
third layer sees a query and the context, and predicts the noise there and its own error. From the
context alone come the expected error of the cloud's level, and whether its noise is correlated.

`benchmarks/noise/fit_noise_estimate.py` makes the coefficients in `estimate.json`.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any, NamedTuple

import numpy as np

from pdflow.geometry.arrays import FloatArray

FLOOR = 1e-3
"""Smallest length in a description, in reaches: it hides rounding."""

DEVIATION = -3
"""Column of a description with the deviation from a quadratic surface in the largest
neighbourhood."""

OFFSET = 0.005
"""The network predicts log(sigma / reach + OFFSET), which is finite without noise."""

LOG_SPREADS = (-2.0, 3.0)
"""Limits of the predicted uncertainty: a few very certain queries must not outvote all others."""

MOST = 1.5
"""Noise is at most this many times the deviation from a quadratic surface in the largest
neighbourhood: whatever the network was not fitted to, it cannot find noise where there is none."""

WINSORISED = (0.05, 0.9)
"""The level of a cloud takes local levels below and above these quantiles for the quantiles."""


class Reading(NamedTuple):
    """What the network says about the queries of a cloud.

    local           (Q,) noise at each query, in the unit of the reach
    certainty       (Q,) weight of each query by its expected error
    expected_error  of the logarithm of the cloud's level
    correlated      probability that the noise is correlated, if there is any
    """

    local: FloatArray
    certainty: FloatArray
    expected_error: float
    correlated: float

    def level(self, weights: FloatArray) -> float:
        """The noise that queries with weights (Q,) say together: the root of the mean square."""
        weights = weights * self.certainty
        low, high = (weighted_quantile(self.local, weights, q) for q in WINSORISED)
        local = np.clip(self.local, low, high)
        return float(np.sqrt((weights * local**2).sum() / weights.sum()))


class Network(NamedTuple):
    """Coefficients of the network, for descriptions of C numbers.

    mean       (C,) of the descriptions it was fitted to
    whitening  (C, C) what makes their columns uncorrelated, with a variance of 1
    layers     name -> (weights, bias): (outputs, inputs) and (outputs,)
    """

    mean: FloatArray
    whitening: FloatArray
    layers: dict[str, tuple[FloatArray, FloatArray]]

    def read(self, description: FloatArray, reach: FloatArray, weights: FloatArray) -> Reading:
        """Read descriptions (Q, C) of queries with reach (Q,) and weights (Q,)."""
        said, context = self.say(description, relative_reach(reach, weights)[:, None], weights)
        ratio, spread = said.T
        expected, kind = self._apply("cloud", context)
        return Reading(
            np.clip(np.exp(ratio) - OFFSET, 0, MOST * _deviation(description)) * reach,
            np.exp(-2 * np.clip(spread, *LOG_SPREADS)),
            float(np.exp(np.clip(expected, -4, 1))),
            float(1 / (1 + np.exp(-kind))),
        )

    def say(
        self, description: FloatArray, further: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """What the last layer says of each query (Q, outputs), and the context of all of them.

        further  (Q, F) inputs beside the descriptions (Q, C), as they are
        """
        # Inputs far outside the fitted range must not cause wild predictions.
        x = np.clip((description - self.mean) @ self.whitening, -5, 5)
        share = (weights / weights.sum())[:, None]
        x = np.concatenate([x, further], axis=1)
        hidden = _silu(self._apply("second", _silu(self._apply("first", x))))
        pooled = np.concatenate([x, self._apply("pooled", hidden)], axis=1)
        mean = (share * pooled).sum(axis=0)
        deviation = np.sqrt((share * (pooled - mean) ** 2).sum(axis=0) + 1e-6)
        context = _silu(self._apply("context", np.concatenate([mean, deviation])))
        around = np.broadcast_to(context, (len(hidden), len(context)))
        third = _silu(self._apply("third", np.concatenate([hidden, around], axis=1)))
        return self._apply("query", third), context

    def _apply(self, name: str, values: FloatArray) -> FloatArray:
        weights, bias = self.layers[name]
        return np.asarray(values @ weights.T + bias)


def relative_reach(reach: FloatArray, weights: FloatArray) -> FloatArray:
    """(Q,): logarithm of the reach of queries over its mean, within bounds."""
    logs = np.log(reach)
    return np.asarray(np.clip(logs - (weights / weights.sum() * logs).sum(), -3, 3))


def network_from(document: dict[str, Any]) -> Network:
    """The network in a document that a script of `benchmarks/` wrote."""
    layers = {
        name: (np.array(layer["weights"]), np.array(layer["bias"]))
        for name, layer in document["layers"].items()
    }
    return Network(np.array(document["mean"]), np.array(document["whitening"]), layers)


@functools.cache
def load_network(name: str = "estimate") -> Network:
    """The network of this name that is shipped with the package."""
    file = importlib.resources.files("pdflow.noise") / f"{name}.json"
    return network_from(json.loads(file.read_text("utf-8")))


def weighted_quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """The value below which a share of the weight lies, interpolated so that it changes smoothly.

    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0]), 0.5)
    2.0
    """
    order = np.argsort(values, kind="stable")
    order = order[weights[order] > 0]
    ordered = weights[order]
    total = np.cumsum(ordered)
    return float(np.interp(share * total[-1], total - 0.5 * ordered, values[order]))


def _deviation(description: FloatArray) -> FloatArray:
    """(Q,): from the quadratic surface of the largest neighbourhood, in reaches."""
    return np.asarray(np.sqrt(np.maximum(np.exp(2 * description[:, DEVIATION]) - FLOOR**2, 0)))


def _silu(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * x * (1 + np.tanh(0.5 * x)))
