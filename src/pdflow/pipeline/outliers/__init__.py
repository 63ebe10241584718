"""Outliers: points that lie further off every surface than noise explains.

A point with few others around it may lie on a sparse surface, and one with many in a clump of
outliers; noise is thick here and thin there. So no single distance tells. A fitted rule weighs the
evidence in rounds:

1. All points are judged by their neighbourhood: distances, flatness, and how both compare with
   those of the neighbours.
2. Points that are in doubt are judged again by the surface that the round before left: how far off
   it they lie, in thicknesses of the layer that noise makes of it, and how many points hang
   together around them.
3. Once more, with what that round says.

`rule.json` holds the coefficients; `benchmarks/fit/fit_outliers.py` makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.pipeline.outliers.cut import choose_cut
from pdflow.pipeline.outliers.evidence import (
    FEWEST_POINTS,
    LARGEST_ODDS,
    Described,
    Surface,
    second,
)
from pdflow.pipeline.outliers.rule import Network, load_rule

_POINTS_AT_ONCE = 65_536


class Facts(NamedTuple):
    """What is found out once, from all of a cloud or from a sample of it.

    whole   spacing, its spread and the thickness of layers
    shares  (R,) of outliers after each round
    cut     log odds above which a point is an outlier
    """

    whole: FloatArray
    shares: FloatArray
    cut: float


def find_outliers(
    search: NeighborSearch,
    facts: Facts | None = None,
    thin: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.bool_], Facts]:
    """(M,): whether each point of a cloud is an outlier; and what was found out for it.

    search  of distinct points
    facts   of the cloud that these points are a part of; by default their own
    thin    (M,) one of about four points, for a coarse view; by default evenly spread ones

    Scaling and moving the cloud changes nothing, up to rounding. A cloud of fewer than 64 points
    has no outliers: nothing says which of them are the surface.
    """
    if len(search) < FEWEST_POINTS:
        none = np.zeros(len(search), dtype=bool)
        return none, facts or Facts(np.zeros(5), np.zeros(len(load_rule())), LARGEST_ODDS)
    odds, known = judge(Described.of(search, thin), load_rule(), facts)
    return np.asarray(odds > known.cut), known


def judge(
    cloud: Described, rounds: Sequence[Network], facts: Facts | None = None
) -> tuple[FloatArray, Facts]:
    """(M,): log odds that each point is an outlier, by the networks of a rule; and the facts."""
    whole = cloud.whole() if facts is None else facts.whole
    odds, shares = np.empty(len(cloud.search)), np.zeros(len(rounds))
    for rows in _parts(np.arange(len(odds))):
        odds[rows] = rounds[0].read(cloud.first(whole, rows))
    for number, network in enumerate(rounds[1:]):
        shares[number] = share_of(odds) if facts is None else facts.shares[number]
        before, found = odds.copy(), Surface.of(cloud.search, odds)
        if not found.is_seen:
            break
        for rows in _parts(found.suspects):
            odds[rows] = network.read(second(cloud, whole, shares[number], before, found, rows))
    shares[-1] = share_of(odds)
    return odds, Facts(whole, shares, choose_cut(odds)) if facts is None else facts


def share_of(odds: FloatArray) -> float:
    """The share of outliers by their log odds (M,)."""
    return float(np.mean(1 / (1 + np.exp(-odds))))


def _parts(rows: IntArray) -> list[IntArray]:
    """Rows in parts, so that what a network reads does not fill the memory."""
    return [rows[i : i + _POINTS_AT_ONCE] for i in range(0, len(rows), _POINTS_AT_ONCE)]
