"""Where to cut: as many outliers as can be found without taking too much of the surface."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray

LOWEST = -1.0
"""Log odds below which nothing is taken."""

MOST_TAKEN = 0.0025
"""Share of the surface points that may be taken, as the odds foretell it."""

FITTED = 1 / 23
"""Outliers per point of a surface, by the weights that the rule was fitted with."""

ROUNDS = 30
_RARE, _FREQUENT = 1e-5, 0.5


def choose_cut(odds: FloatArray) -> float:
    """Log odds above which a point is an outlier, from those of all points (M,) of a cloud.

    The odds are those of the fit, where outliers are FITTED times as many as other points. The
    share of outliers in the cloud at hand follows from them in a few rounds, and with it the
    chance that each point belongs to a surface. The cut is as low as these chances allow.
    """
    ratios = np.exp(np.clip(odds, -12, 12)) / FITTED
    share = 0.02
    for _ in range(ROUNDS):
        chances = ratios * share / (ratios * share + 1 - share)
        share = min(max(float(chances.mean()), _RARE), _FREQUENT)
    order = np.argsort(-odds, kind="stable")
    taken = np.cumsum(1 - chances[order])
    count = int(np.searchsorted(taken, MOST_TAKEN * taken[-1]))
    return max(LOWEST, float(odds[order[count]]))
