"""How much noise a network should be conditioned on, place by place, relative to the estimate.

A network that is conditioned on the noise of a patch smooths as much as independent noise of that
level asks for. Other noise asks for more or less: noise that neighbours share looks like detail,
and has to be smoothed harder; two layers that lie within the noise of each other look like one, and
have to be smoothed less. The descriptions that the noise estimate reads show both. A network of the
same form reads them. `benchmarks/noise/fit_conditioning.py` makes its coefficients: it minimises
the squared distance from the surface that remains after one pass. Correlated noise that the
estimate is sure of is smoothed harder still, in all passes.
"""

from __future__ import annotations

import math

import numpy as np

from pdflow.geometry.arrays import FloatArray
from pdflow.geometry.neighbors import knn
from pdflow.noise.neighborhoods import Neighborhoods
from pdflow.noise.network import load_network, relative_reach

LARGEST = math.log(2.5)
"""Largest logarithm of a factor, and smallest with the other sign."""

NEARBY = 64
"""Queries whose mean is the factor of a place: about as many as a patch holds in usual clouds."""

SAME = math.log(1.1)
"""Factors up to this one may be chance and count as 1; beyond, they differ by the rest."""

CORRELATED, SURE = math.log(1.4), (0.75, 0.95)
"""Further logarithm of the factor of correlated noise, and the probabilities between which it rises
from 0. On depth cameras and badly registered scans 1.4 and 1.9 are as good, and on noise that is
smooth over several spacings 1.9 does harm (`benchmarks/noise/try_correlated.py`)."""

LEVELS = (-6.0, 2.0)
"""Limits of the logarithm of the noise over the reach."""


def log_factors(seen: Neighborhoods, weights: FloatArray, sigma: float, error: float) -> FloatArray:
    """(Q,): logarithms of the factors at queries with weights (Q,).

    sigma  noise of the cloud, in the unit of the reach, and `error`, the expected one of its
           logarithm
    """
    level = np.log(sigma / seen.reach) if sigma > 0 else np.full(len(seen.reach), -np.inf)
    further = [
        relative_reach(seen.reach, weights),
        np.clip(level, *LEVELS),
        np.full(len(level), math.log(error)),
    ]
    said, _ = load_network("conditioning").say(seen.description, np.stack(further, axis=1), weights)
    return np.asarray(LARGEST * np.tanh(said[:, 0]))


def certain(logs: FloatArray) -> FloatArray:
    """(P,): log factors (P,) without what may be chance.

    >>> certain(np.log([0.5, 1.05, 2.2])).round(3)
    array([-0.598,  0.   ,  0.693])
    """
    return np.asarray(np.sign(logs) * np.maximum(np.abs(logs) - SAME, 0))


def of_correlated(probability: float) -> float:
    """The further log factor of noise that is correlated with this probability.

    >>> [round(of_correlated(p), 3) for p in (0.5, 0.85, 1.0)]
    [0.0, 0.168, 0.336]
    """
    low, high = SURE
    return CORRELATED * min(max((probability - low) / (high - low), 0.0), 1.0)


def average_nearby(places: FloatArray, queries: FloatArray, values: FloatArray) -> FloatArray:
    """(P,): weighted means of the values (Q,) of the queries (Q, 3) nearest to places (P, 3).

    Weights fall to 0 at the farthest, so that the result changes smoothly with the place.
    """
    sq_distances, near = knn(queries, places, min(NEARBY, len(queries)))
    farthest = sq_distances[:, -1:] + np.finfo(float).tiny
    weights = np.maximum(1 - sq_distances / farthest, np.finfo(float).eps)
    return np.asarray((weights * values[near]).sum(axis=1) / weights.sum(axis=1))
