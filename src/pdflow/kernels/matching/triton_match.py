# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""`twin.match_torch` on CUDA: one program per patch from the first bid to the last path.

A lane stands for a prediction, and for a target in steps over targets. Lanes communicate through
memory. A bid or a label is one 64-bit number that a single atomic maximum or minimum decides, so
the order of threads does not matter. Barriers separate what all lanes read from what they write.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pdflow.kernels.matching import twin

OWNER_BITS = tl.constexpr(twin.OWNER_BITS)
OWNER = tl.constexpr(twin.OWNER)
LARGEST_PRICE = tl.constexpr(twin.LARGEST_PRICE)
UNREACHED = tl.constexpr(twin.UNREACHED)
RESOLUTION = tl.constexpr(twin.RESOLUTION)
LARGEST_COST = tl.constexpr(twin.LARGEST_COST)
TINY = tl.constexpr(torch.finfo(torch.float32).tiny)
NO_LABEL = tl.constexpr(twin.UNREACHED << twin.OWNER_BITS)

WARPS = 32
"""Warps of a program. A bijection of 1024 rows takes 1.9 ms with 32 (64 patches, H200) and 2.3 ms
with 16; an auction takes 0.2 ms."""


@triton.jit
def _high(key):
    """Price or length in a key."""
    return (key >> OWNER_BITS).to(tl.int32)


@triton.jit
def _low(key):
    """Row in a key."""
    return (key & OWNER).to(tl.int32)


@triton.jit
def _key(high, low):
    return (high.to(tl.int64) << OWNER_BITS) | low.to(tl.int64)


@triton.jit
def _count(flags):
    return tl.sum(flags.to(tl.int32), 0)


@triton.jit
def _auction(candidates, costs, bids, row, is_row, points, MARGIN, ROUNDS, K: tl.constexpr):
    """Targets that predictions hold or bid for last (`twin._auction`)."""
    held = tl.full(row.shape, -1, tl.int32)
    bidders = points
    for _ in range(ROUNDS):
        if bidders > 0:
            bidding = is_row & (_low(tl.load(bids + held, mask=held >= 0, other=0)) != row + 1)
            least = tl.full(row.shape, UNREACHED, tl.int32)
            second = tl.full(row.shape, UNREACHED, tl.int32)
            wanted = tl.zeros(row.shape, tl.int32)
            price = tl.zeros(row.shape, tl.int32)
            for k in tl.static_range(K):
                candidate = tl.load(candidates + k * points, mask=bidding, other=0)
                asked = _high(tl.load(bids + candidate, mask=bidding, other=0))
                total = tl.load(costs + k * points, mask=bidding, other=0) + asked
                less = total < least
                second = tl.where(less, least, tl.minimum(second, total))
                wanted = tl.where(less, candidate, wanted)
                price = tl.where(less, asked, price)
                least = tl.where(less, total, least)
            if K == 1:
                second = least
            price = tl.minimum(price + second - least + MARGIN, LARGEST_PRICE)
            tl.debug_barrier()
            tl.atomic_max(bids + wanted, _key(price, row + 1), mask=bidding, sem="relaxed")
            held = tl.where(bidding, wanted, held)
            bidders = _count(bidding)
            tl.debug_barrier()
    return held


@triton.jit
def _grow_trees(candidates, costs, bids, labels, held, row, is_row, points, HOPS, K: tl.constexpr):
    """Label targets with the length of the shortest path, and the prediction before them."""
    waiting = is_row & (held < 0)
    cheapest = tl.full(row.shape, UNREACHED, tl.int32)
    has = tl.zeros(row.shape, tl.int32)
    for k in tl.static_range(K):
        candidate = tl.load(candidates + k * points, mask=is_row, other=0)
        total = tl.load(costs + k * points, mask=is_row, other=0)
        total += _high(tl.load(bids + candidate, mask=is_row, other=0))
        cheapest = tl.minimum(cheapest, total)
        has = tl.where(candidate == held, total, has)
    has = tl.where(waiting, cheapest, has)
    reached = tl.full(row.shape, UNREACHED, tl.int32)
    growing = points
    for _ in range(HOPS):
        if growing > 0:
            label = tl.load(labels + held, mask=held >= 0, other=NO_LABEL)
            length = tl.where(waiting, 0, _high(label))
            shorter = length < reached
            reached = tl.where(shorter, length, reached)
            tl.debug_barrier()
            for k in tl.static_range(K):
                candidate = tl.load(candidates + k * points, mask=shorter, other=0)
                total = tl.load(costs + k * points, mask=shorter, other=0)
                total += _high(tl.load(bids + candidate, mask=shorter, other=0))
                longer = tl.minimum(length + tl.maximum(total - has, 0) + 1, UNREACHED)
                tl.atomic_min(labels + candidate, _key(longer, row), mask=shorter, sem="relaxed")
            growing = _count(shorter)
            tl.debug_barrier()


@triton.jit
def _take_paths(bids, labels, goals, rows, row, is_row, HOPS):
    """Move all predictions on the shortest path of each tree by one target; returns the paths."""
    label = tl.load(labels + row, mask=is_row, other=NO_LABEL)
    bid = tl.load(bids + row, mask=is_row, other=1)
    free = (_low(bid) == 0) & (_high(label) < UNREACHED)
    root = tl.where(free, _low(label), 0)
    before = tl.load(rows + root, mask=free, other=-1).to(tl.int32)
    walkers = _count(before >= 0)
    for _ in range(HOPS):
        if walkers > 0:
            label_before = tl.load(labels + before, mask=before >= 0, other=0)
            root = tl.where(before >= 0, _low(label_before), root)
            before = tl.load(rows + root, mask=before >= 0, other=-1).to(tl.int32)
            walkers = _count(before >= 0)
    free = free & (before < 0)
    goal = _key(_high(label), row)
    tl.atomic_min(goals + root, goal, mask=free, sem="relaxed")
    tl.debug_barrier()
    won = free & (tl.load(goals + root, mask=free, other=0) == goal)
    farthest = tl.max(tl.where(won, _high(label), 0), 0)
    price = tl.minimum(_high(bid) + tl.maximum(farthest - _high(label), 0), LARGEST_PRICE)
    tl.store(bids + row, _key(price, tl.where(won, root + 1, _low(bid))), mask=is_row)

    column = tl.where(won, row, -1)
    paths = _count(won)
    walkers = paths
    for _ in range(HOPS + 1):
        if walkers > 0:
            mover = _low(tl.load(labels + column, mask=column >= 0, other=0))
            before = tl.load(rows + mover, mask=column >= 0, other=-1).to(tl.int32)
            tl.store(rows + mover, column.to(tl.int64), mask=column >= 0)
            column = before
            walkers = _count(column >= 0)
    tl.debug_barrier()
    return paths


@triton.jit
def _complete(
    candidates, costs, bids, labels, goals, rows, held, row, is_row, points,
    PHASES, HOPS, K: tl.constexpr,
):  # fmt: skip
    """Match the predictions that have no target yet."""
    paths, waiting = 1, _count(is_row & (held < 0))
    for _ in range(PHASES):
        if (paths > 0) & (waiting > 0):
            nothing = tl.full(row.shape, NO_LABEL, tl.int64)
            tl.store(labels + row, nothing, mask=is_row)
            tl.store(goals + row, nothing, mask=is_row)
            tl.debug_barrier()
            held = tl.load(rows + row, mask=is_row, other=-1).to(tl.int32)
            _grow_trees(candidates, costs, bids, labels, held, row, is_row, points, HOPS, K)
            paths = _take_paths(bids, labels, goals, rows, row, is_row, HOPS)
            waiting -= paths

    if waiting > 0:
        left = tl.load(rows + row, mask=is_row, other=0) < 0
        free = _low(tl.load(bids + row, mask=is_row, other=1)) == 0
        tl.store(goals + tl.cumsum(free.to(tl.int32), 0) - 1, row.to(tl.int64), mask=free)
        tl.debug_barrier()
        rest = tl.load(goals + tl.cumsum(left.to(tl.int32), 0) - 1, mask=left, other=0)
        tl.store(rows + row, rest, mask=left)


@triton.jit
def match_kernel(
    candidates_ptr, costs_ptr, bids_ptr, labels_ptr, goals_ptr, rows_ptr, points,
    MARGIN, ROUNDS, PHASES, HOPS, K: tl.constexpr, POINTS: tl.constexpr, BIJECTION: tl.constexpr,
):  # fmt: skip
    """Match all points of one patch. candidates and costs are (B, K, N), the others (B, N)."""
    patch = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, POINTS)
    is_row = row < points
    candidates = candidates_ptr + patch * K * points + row
    costs = costs_ptr + patch * K * points + row
    bids = bids_ptr + patch * points
    labels = labels_ptr + patch * points
    goals = goals_ptr + patch * points
    rows = rows_ptr + patch * points
    tl.store(bids + row, tl.zeros((POINTS,), tl.int64), mask=is_row)
    tl.debug_barrier()
    held = _auction(candidates, costs, bids, row, is_row, points, MARGIN, ROUNDS, K)
    if BIJECTION:
        owner = _low(tl.load(bids + held, mask=is_row, other=0))
        held = tl.where(owner == row + 1, held, -1)
        tl.store(rows + row, held.to(tl.int64), mask=is_row)
        _complete(
            candidates, costs, bids, labels, goals, rows, held, row, is_row, points,
            PHASES, HOPS, K,
        )  # fmt: skip
    else:
        tl.store(rows + row, held.to(tl.int64), mask=is_row)


@triton.jit
def costs_kernel(
    prediction_ptr, target_ptr, candidates_ptr, rows_ptr, costs_ptr, points,
    K: tl.constexpr, POINTS: tl.constexpr,
):  # fmt: skip
    """Candidates of one patch as int32, and `twin.candidate_costs`, both (K, N)."""
    patch = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, POINTS)
    is_row = row < points
    prediction = prediction_ptr + (patch * points + row) * 3
    candidates = candidates_ptr + (patch * points + row) * K
    place = patch * K * points + row
    x = tl.load(prediction, mask=is_row, other=0.0)
    y = tl.load(prediction + 1, mask=is_row, other=0.0)
    z = tl.load(prediction + 2, mask=is_row, other=0.0)
    unit = 0.0
    # The last one first: its mean distance is the unit.
    for k in tl.static_range(K - 1, -1, -1):
        candidate = tl.load(candidates + k, mask=is_row, other=0).to(tl.int32)
        target = target_ptr + (patch * points + candidate) * 3
        dx = x - tl.load(target, mask=is_row, other=0.0)
        dy = y - tl.load(target + 1, mask=is_row, other=0.0)
        dz = z - tl.load(target + 2, mask=is_row, other=0.0)
        distance = tl.sqrt(dx * dx + dy * dy + dz * dz)
        if k == K - 1:
            mean = tl.sum(tl.where(is_row, distance, 0.0), 0) / points
            unit = tl.maximum(mean / RESOLUTION, TINY)
        cost = distance / unit
        cost = tl.where(cost < LARGEST_COST, cost, LARGEST_COST)
        tl.store(rows_ptr + place + k * points, candidate, mask=is_row)
        tl.store(costs_ptr + place + k * points, cost.to(tl.int32), mask=is_row)


def match_nearest(
    prediction: Tensor, target: Tensor, candidates: Tensor, bijection: bool
) -> Tensor:
    """Rows (B, N) int64 of targets for predictions (B, N, 3).

    target      (B, N, 3)
    candidates  (B, N, K) rows of targets, nearest first
    bijection   as in `match`
    """
    batch, points, k = candidates.shape
    rows, costs = candidates.new_empty((2, batch, k, points), dtype=torch.int32)
    costs_kernel[(batch,)](
        prediction.contiguous(), target.contiguous(), candidates.contiguous(), rows, costs, points,
        K=k, POINTS=triton.next_power_of_2(points), num_warps=WARPS,
    )  # fmt: skip
    return match(rows, costs, bijection)


def match(candidates: Tensor, costs: Tensor, bijection: bool) -> Tensor:
    """Rows (B, N) int64 of targets, given int32 candidates and costs (B, K, N).

    bijection  match every target once; else the auction alone decides
    """
    batch, k, points = candidates.shape
    scratch = candidates.new_empty((3, batch, points), dtype=torch.long)
    rows = candidates.new_empty((batch, points), dtype=torch.long)
    match_kernel[(batch,)](
        candidates, costs, *scratch, rows, points,
        twin.MARGIN if bijection else twin.SHARED_MARGIN,
        twin.ROUNDS, twin.PHASES, twin.HOPS,
        K=k, POINTS=triton.next_power_of_2(points), BIJECTION=bijection, num_warps=WARPS,
    )  # fmt: skip
    return rows
