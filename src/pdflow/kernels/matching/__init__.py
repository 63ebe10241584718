"""Matchings between the points of patches, nearly as cheap as the best bijection, on any device.

An auction first: every prediction without a target bids for the one that is worth most to it, at
a price at which the second best would do as well, and a little more (Bertsekas 1988). It leaves a
few predictions for which the free targets lie far away. Where a bijection is asked for, these come
in by shortest augmenting paths: all others on a path move on by one target, and nobody moves far.
That takes ten times as long as the auction; a training step lets those few share the target that
they wanted last. Both only look at the nearest targets of each prediction and count in whole
numbers, so results are the same bits on every run, and on every device that starts from the same
costs.
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
    """A bijection whose sum of distances is close to the least, Eq. (15).

    prediction, target  (B, N, 3)
    returns             (B, N) int64 rows of target; every row once

    The sum exceeds the least by 0.2 % (0.3 % at most) for patches of 1024 points with up to 3 %
    noise, whose longest distance grows by 20 % at most. Where no bijection exists among the nearest
    targets (predictions that have collapsed), those left over take the targets left over in the
    order of their rows; for two independent Gaussian clouds that costs 3 % (6 % at most), and 20 %
    at worst where points lie closer than the noise is large (`benchmarks/bench_train_step.py`).
    """
    return _matching(prediction, target, bijection=True)


@torch.no_grad()
def auction_matching(prediction: Tensor, target: Tensor) -> Tensor:
    """Like `approximate_matching`, but a few predictions share targets: the auction alone.

    For patches of 1024 of 10,000 points with up to 3 % noise 0 to 16 predictions share a target,
    and the sum of distances is 0.976 to 1.006 of the least that a bijection has. Where points lie
    closer than the noise is large, up to 6 % share (`benchmarks/bench_train_step.py` prints such
    a case): 0.95 of the least. The authors trained with an auction that was no bijection either.
    """
    return _matching(prediction, target, bijection=False)


def _matching(prediction: Tensor, target: Tensor, bijection: bool) -> Tensor:
    prediction, target = prediction.detach(), target.detach()
    candidates = nearest(prediction, target, min(CANDIDATES, target.shape[1]))
    if runs_triton(prediction) and prediction.shape[1] <= _FUSED_POINTS:
        from pdflow.kernels.matching.triton_match import match_nearest

        return match_nearest(prediction.float(), target.float(), candidates, bijection)
    return match_torch(candidates, candidate_costs(prediction, target, candidates), bijection)
