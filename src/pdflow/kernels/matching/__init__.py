"""Matchings between the points of patches, close to the cheapest bijection, on any device.

First an auction (Bertsekas 1988): every prediction without a target bids for its best target, at
the price that makes the second best equally good, plus a margin. It leaves a few predictions whose
free targets are far away. For a bijection, shortest augmenting paths match these: the others on a
path move on by one target each, so none moves far. That takes ten times as long as the auction, so
a training step lets the few share the target of their last bid. Both stages consider only the
nearest targets of each prediction and use integers, so results are the same bits in every run, and
on every device that starts from the same costs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.kernels import runs_triton
from pdflow.kernels.graph import nearest
from pdflow.kernels.matching.twin import CANDIDATES, candidate_costs, match_torch

_FUSED_POINTS = 4096


@torch.no_grad()
def approximate_matching(prediction: Tensor, target: Tensor) -> Tensor:
    """A bijection whose sum of distances is close to the smallest possible, Eq. (15).

    prediction, target  (B, N, 3)
    returns             (B, N) int64 rows of target; every row once

    For patches of 1024 points with up to 3 % noise, the sum exceeds the smallest by 0.2 % (at most
    0.3 %), and the longest distance grows by at most 20 %. If no bijection exists among the nearest
    targets (collapsed predictions), unmatched predictions take the unmatched targets in the order
    of their rows. For two independent Gaussian clouds that costs 3 % (at most 6 %), and at worst
    20 % if the noise exceeds the spacing of points (`benchmarks/speed/bench_train_step.py`).
    """
    return _matching(prediction, target, bijection=True)


@torch.no_grad()
def auction_matching(prediction: Tensor, target: Tensor) -> Tensor:
    """Like `approximate_matching`, but with the auction alone: a few predictions share targets.

    For patches of 1024 of 10,000 points with up to 3 % noise, 0 to 16 predictions share a target,
    and the sum of distances is 0.976 to 1.006 of that of the best bijection. If the noise exceeds
    the spacing of points, up to 6 % share, and the sum is 0.95 of it
    (`benchmarks/speed/bench_train_step.py` prints such a case). The authors trained with an auction
    that was no bijection either.
    """
    return _matching(prediction, target, bijection=False)


def _matching(prediction: Tensor, target: Tensor, bijection: bool) -> Tensor:
    prediction, target = prediction.detach(), target.detach()
    candidates = nearest(prediction, target, min(CANDIDATES, target.shape[1]))
    if runs_triton(prediction) and prediction.shape[1] <= _FUSED_POINTS:
        from pdflow.kernels.matching.triton_match import match_nearest

        return match_nearest(prediction.float(), target.float(), candidates, bijection)
    return match_torch(candidates, candidate_costs(prediction, target, candidates), bijection)
