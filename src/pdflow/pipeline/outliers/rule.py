"""The fitted rule: small networks from numbers about a point to the odds that it is an outlier."""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any, NamedTuple

import numpy as np

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray
from pdflow.parallel import run_in_threads

LIMIT = 5.0
"""Deviations from the mean beyond which a number counts no further."""


class Network(NamedTuple):
    """Two layers of ReLUs between C numbers and log odds.

    mean, std      (C,) of the numbers it was fitted to
    weights, bias  of its three layers: (inputs, outputs) and (outputs,) of each
    """

    mean: FloatArray
    std: FloatArray
    weights: tuple[FloatArray, FloatArray, FloatArray]
    bias: tuple[FloatArray, FloatArray, FloatArray]

    def read(self, numbers: FloatArray) -> FloatArray:
        """The log odds (Q,) of points with numbers (Q, C); each depends on its own row alone."""
        odds = np.empty(len(numbers))
        run_in_threads(_read, len(numbers), numbers, *self, odds)
        return odds


def network_from(document: dict[str, Any]) -> Network:
    """A network in the document that `benchmarks/fit/fit_outliers.py` wrote."""
    a, b, c = (np.ascontiguousarray(np.array(values, float)) for values in document["weights"])
    d, e, f = (np.array(values, float) for values in document["bias"])
    return Network(np.array(document["mean"]), np.array(document["std"]), (a, b, c), (d, e, f))


@functools.cache
def load_rule() -> tuple[Network, ...]:
    """The rule shipped with the package: a network for each round."""
    file = importlib.resources.files("pdflow.pipeline.outliers") / "rule.json"
    return tuple(map(network_from, json.loads(file.read_text("utf-8"))["rounds"]))


@compiled
def _read(
    start: int,
    stop: int,
    numbers: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    weights: tuple[FloatArray, FloatArray, FloatArray],
    bias: tuple[FloatArray, FloatArray, FloatArray],
    odds: FloatArray,
) -> None:
    """Compiled, because a matrix product may round a row by the number of rows beside it."""
    a, b = np.empty(len(bias[0])), np.empty(len(bias[1]))
    for row in range(start, stop):
        a[:] = bias[0]
        for i in range(len(mean)):
            # Numbers far outside the fitted range must not cause wild odds.
            value = min(max((numbers[row, i] - mean[i]) / std[i], -LIMIT), LIMIT)
            for j in range(len(a)):
                a[j] += value * weights[0][i, j]
        b[:] = bias[1]
        for i in range(len(a)):
            value = max(a[i], 0.0)
            for j in range(len(b)):
                b[j] += value * weights[1][i, j]
        total = bias[2][0]
        for i in range(len(b)):
            total += max(b[i], 0.0) * weights[2][i, 0]
        odds[row] = total
