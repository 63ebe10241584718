"""The network that reads noise levels from descriptions of neighbourhoods.

Two layers see one query each. What they see and find is pooled over all queries (mean and standard
deviation), which gives the context: how a cloud's detail, sampling and noise look as a whole. A
third layer sees a query and the context, and predicts the noise there and its own error. From the
context alone come the expected error of the cloud's level, and whether its noise is correlated.

`benchmarks/fit_noise_estimate.py` makes the coefficients in `estimate.json`.
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

DEVIATION, NEAR_DEVIATION, MIDDLE_DEVIATION = -3, 12, 39
"""Columns of a description with the deviation from a quadratic surface in the neighbourhoods of
270, 16 and 90 points."""

OFFSET = 0.005
"""The network predicts log(sigma / reach + OFFSET), which is finite without noise."""

LOG_SPREADS = (-2.0, 3.0)
"""Limits of the predicted uncertainty: a few very certain queries must not outvote all others."""

MOST = 1.5
"""Noise is at most this many times the deviation from a quadratic surface in the largest
neighbourhood: whatever the network was not fitted to, it cannot find noise where there is none."""

LEAST, GROWTH = 0.45, (1.2, 1.5)
"""Noise is at least this share of the deviation in 16 points, if that in 90 points is larger by
less than these factors, more or less: detail would have grown. So a noisy part of a quiet cloud is
seen; two parallel sheets, 4 sigma apart, have a deviation of 2.2 sigma."""

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
        # Inputs far outside the fitted range must not cause wild predictions.
        x = np.clip((description - self.mean) @ self.whitening, -5, 5)
        share = (weights / weights.sum())[:, None]
        logs = np.log(reach)[:, None]
        x = np.concatenate([x, np.clip(logs - (share * logs).sum(axis=0), -3, 3)], axis=1)
        hidden = _silu(self._apply("second", _silu(self._apply("first", x))))
        pooled = np.concatenate([x, self._apply("pooled", hidden)], axis=1)
        mean = (share * pooled).sum(axis=0)
        deviation = np.sqrt((share * (pooled - mean) ** 2).sum(axis=0) + 1e-6)
        context = _silu(self._apply("context", np.concatenate([mean, deviation])))
        around = np.broadcast_to(context, (len(hidden), len(context)))
        third = _silu(self._apply("third", np.concatenate([hidden, around], axis=1)))
        ratio, spread = self._apply("query", third).T
        expected, kind = self._apply("cloud", context)
        return Reading(
            _bounded(np.exp(ratio) - OFFSET, description) * reach,
            np.exp(-2 * np.clip(spread, *LOG_SPREADS)),
            float(np.exp(np.clip(expected, -4, 1))),
            float(1 / (1 + np.exp(-kind))),
        )

    def _apply(self, name: str, values: FloatArray) -> FloatArray:
        weights, bias = self.layers[name]
        return np.asarray(values @ weights.T + bias)


def network_from(document: dict[str, Any]) -> Network:
    """The network in a document that `benchmarks/fit_noise_estimate.py` wrote."""
    layers = {
        name: (np.array(layer["weights"]), np.array(layer["bias"]))
        for name, layer in document["layers"].items()
    }
    return Network(np.array(document["mean"]), np.array(document["whitening"]), layers)


@functools.cache
def load_network() -> Network:
    """The network shipped with the package."""
    file = importlib.resources.files("pdflow.noise") / "estimate.json"
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


def _bounded(ratio: FloatArray, description: FloatArray) -> FloatArray:
    """Noise (Q,) in reaches, within what the deviations in a description (Q, C) allow."""
    columns = description[:, [DEVIATION, NEAR_DEVIATION, MIDDLE_DEVIATION]]
    far, near, middle = np.sqrt(np.maximum(np.exp(2 * columns) - FLOOR**2, 0)).T
    low, high = GROWTH
    flat = np.clip((high * near - middle) / (high - low), 0, near)
    return np.asarray(np.clip(ratio, LEAST * flat, np.maximum(MOST * far, LEAST * flat)))


def _silu(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * x * (1 + np.tanh(0.5 * x)))
