"""The auction and the shortest paths in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

CANDIDATES = 16
"""Nearest targets that a prediction may be matched with."""
MARGIN = 32
SHARED_MARGIN = 64
"""By how much a bid exceeds the price that makes the two best targets equal. A smaller margin gives
a better matching and a longer auction; it is larger if no paths follow."""
RESOLUTION = 40 * MARGIN
"""Units of cost in the mean distance to the last candidate."""
ROUNDS = 60
PHASES = 12
HOPS = 96
"""Rounds of bidding; searches for paths; most edges of a path."""

OWNER_BITS = 32
OWNER = (1 << OWNER_BITS) - 1
LARGEST_COST = 1 << 24
LARGEST_PRICE = 1 << 29
UNREACHED = 1 << 30


def candidate_costs(prediction: Tensor, target: Tensor, candidates: Tensor) -> Tensor:
    """(B, N, K) int32: distances to candidates (B, N, K) as integers, on the scale of a patch.

    Distances that are not finite cost most.
    """
    rows = candidates.flatten(1)[..., None].expand(-1, -1, 3)
    near = target.gather(1, rows).view(*candidates.shape, 3)
    distances = (prediction[:, :, None] - near).square().sum(-1).sqrt()
    unit = distances[..., -1:].mean(1, keepdim=True) / RESOLUTION
    costs = distances / unit.clamp_min(torch.finfo(unit.dtype).tiny)
    return torch.where(costs < LARGEST_COST, costs, LARGEST_COST).int()


def match_torch(candidates: Tensor, costs: Tensor, bijection: bool) -> Tensor:
    """Rows (B, N) of targets, given candidates (B, N, K) and their costs as int32 (B, N, K).

    Inside, rows count through all patches, so that each step touches only the rows that it changes.
    """
    batch, points, k = candidates.shape
    first = torch.arange(batch, device=costs.device)[:, None] * points
    candidates = (candidates + first[..., None]).view(-1, k)
    costs = costs.long().view(-1, k)
    held, bids = _auction(candidates, costs, MARGIN if bijection else SHARED_MARGIN)
    if not bijection:
        return held.view(batch, points) - first
    owners = (bids & OWNER)[held] - 1
    held[owners != torch.arange(len(held), device=held.device)] = -1
    for _ in range(PHASES):
        if (held >= 0).all():
            break
        _augment(candidates, costs, held, bids, points)
    held[held < 0] = ((bids & OWNER) == 0).nonzero()[:, 0]
    return held.view(batch, points) - first


def _auction(candidates: Tensor, costs: Tensor, margin: int) -> tuple[Tensor, Tensor]:
    """Targets that predictions hold or bid for last, and bids for targets: (B N,) each.

    A bid holds its price and the row of its bidder plus 1 in one number, so that one maximum
    decides both. Of equal prices, the higher row wins.
    """
    held = costs.new_full((len(costs),), -1)
    bids = torch.zeros_like(held)
    bidders = torch.arange(len(costs), device=costs.device)
    for _ in range(ROUNDS):
        options = candidates[bidders]
        totals = costs[bidders] + (bids[options] >> OWNER_BITS)
        least, k = totals.min(1, keepdim=True)
        second = totals.scatter(1, k, UNREACHED).amin(1) if totals.shape[1] > 1 else least[:, 0]
        wanted = options.gather(1, k)[:, 0]
        price = (bids[wanted] >> OWNER_BITS) + second - least[:, 0] + margin
        bid = (price.clamp_max(LARGEST_PRICE) << OWNER_BITS) | (bidders + 1)
        bids.scatter_reduce_(0, wanted, bid, "amax")
        held[bidders] = wanted
        owners = (bids & OWNER) - 1
        bidders = (owners[held] != torch.arange(len(held), device=held.device)).nonzero()[:, 0]
        if not len(bidders):
            break
    return held, bids


def _augment(candidates: Tensor, costs: Tensor, held: Tensor, bids: Tensor, points: int) -> None:
    """Match one more prediction for every tree of shortest paths that reaches a free target.

    Trees grow from unmatched predictions, over candidates to the predictions that hold these, and
    on. The length of an edge is the difference in price between its target and the one that the
    prediction holds, plus 1, so that no path runs in a circle. Changes held and bids in place.
    """
    row = torch.arange(len(held), device=held.device)
    waiting = held < 0
    totals = costs + (bids[candidates] >> OWNER_BITS)
    is_held = candidates == held[:, None]
    has = torch.where(waiting, totals.amin(1), torch.where(is_held, totals, 0).sum(1))
    steps = (totals - has[:, None]).clamp_min(0) + 1
    labels = torch.full_like(held, UNREACHED << OWNER_BITS)
    reached = torch.full_like(held, UNREACHED)
    for _ in range(HOPS):
        length = torch.where(waiting, 0, labels[held] >> OWNER_BITS)
        grown = (length < reached).nonzero()[:, 0]
        if not len(grown):
            break
        reached[grown] = length[grown]
        longer = (length[grown, None] + steps[grown]).clamp_max(UNREACHED)
        label = (longer << OWNER_BITS) | grown[:, None]
        labels.scatter_reduce_(0, candidates[grown].flatten(), label.flatten(), "amin")
    lengths, parents = labels >> OWNER_BITS, labels & OWNER

    free = (((bids & OWNER) == 0) & (lengths < UNREACHED)).nonzero()[:, 0]
    root = parents[free]
    for _ in range(HOPS):
        if not (held[root] >= 0).any():
            break
        root = torch.where(held[root] >= 0, parents[held[root]], root)
    free, root = free[held[root] < 0], root[held[root] < 0]
    goal = (lengths[free] << OWNER_BITS) | free
    goals = torch.full_like(held, UNREACHED << OWNER_BITS)
    goals.scatter_reduce_(0, root, goal, "amin")
    is_won = goals[root] == goal
    won, root = free[is_won], root[is_won]
    farthest = lengths.new_zeros(len(held) // points)
    farthest.scatter_reduce_(0, won // points, lengths[won], "amax")
    prices = (bids >> OWNER_BITS) + (farthest[row // points] - lengths).clamp_min(0)
    bids.copy_((prices.clamp_max(LARGEST_PRICE) << OWNER_BITS) | (bids & OWNER))
    bids[won] |= root + 1

    column = won
    while len(column):
        mover = parents[column]
        before = held[mover]
        held[mover] = column
        column = before[before >= 0]
