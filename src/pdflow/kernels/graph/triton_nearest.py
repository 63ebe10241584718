# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Nearest neighbours within patches on CUDA: exact fp32 distances, one warp per query.

All N distances of a query stay in registers. The points are dealt into 128 piles. A number that K
minima of piles do not exceed is an upper bound of the K-th smallest distance. Bisection finds such
a bound that few more than K points satisfy, and only these are packed and ranked by counting. If
more than CAPACITY points satisfy it (many equal points), K passes over all distances take one each.

For K = 1 there is nothing to rank: every lane keeps the nearest of its points.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

FARTHEST = tl.constexpr(3e38)
HALVINGS = tl.constexpr(12)
LANES = tl.constexpr(32)
QUAD = tl.constexpr(4)
PILES = LANES.value * QUAD.value

ONE_QUERIES = 64
ONE_LANES = 32
ONE_WARPS = 4
"""Queries of one program for K = 1, points that it compares at a time, and its warps."""


@triton.jit
def _sq_distances(query_at, points_at, row, is_point, points, ALL: tl.constexpr):
    """Sums of squared differences of coordinates, infinite where there is no point.

    query_at   pointers to queries, of the rank of row
    points_at  pointer to the patch (3, N)
    ALL        every row is a point

    Distances that are NaN or infinite count as FARTHEST. They must differ from those of missing
    points, or rows beyond the last would be returned.
    """
    sq_distance = 0.0
    for axis in tl.static_range(3):
        from_query = tl.load(query_at + axis)
        if ALL:
            to_point = tl.load(points_at + axis * points + row)
        else:
            to_point = tl.load(points_at + axis * points + row, mask=is_point, other=0.0)
        difference = from_query - to_point
        sq_distance += difference * difference
    sq_distance = tl.where(sq_distance < FARTHEST, sq_distance, FARTHEST)
    return sq_distance if ALL else tl.where(is_point, sq_distance, float("inf"))


@triton.jit
def _bound(least, K: tl.constexpr):
    """A bound slightly above the K-th smallest of some distances (Q, P).

    Bisects between the smallest and the largest as integers: bits of distances have their order.
    """
    bits = least.to(tl.int32, bitcast=True)
    low = tl.min(bits, 1) - 1
    high = tl.max(bits, 1)
    for _ in tl.static_range(HALVINGS):
        middle = low + ((high - low) >> 1)
        enough = tl.sum((bits <= middle[:, None]).to(tl.int32), 1) >= K
        high = tl.where(enough, middle, high)
        low = tl.where(enough, low, middle)
    return high.to(tl.float32, bitcast=True)


@triton.jit
def _ranks(sq_distance, row, slot, found):
    """Ranks (Q, C) by distance, and by row if distances are equal.

    Without equal distances, the ranks of the `found` slots sum to 0 + 1 + 2 + ...; only if they do
    not, rows are compared.
    """
    closer = sq_distance[:, None, :] < sq_distance[:, :, None]
    rank = tl.sum(tl.where(closer, 1.0, 0.0), 2).to(tl.int32)
    total = tl.sum(tl.where(slot < found[:, None], rank, 0), 1)
    if tl.sum(found * (found - 1) // 2 - total, 0) != 0:
        equal = sq_distance[:, None, :] == sq_distance[:, :, None]
        earlier = row[:, None, :] < row[:, :, None]
        rank += tl.sum((equal & earlier).to(tl.int32), 2)
    return rank


@triton.jit
def nearest_kernel(
    queries_ptr, points_ptr, packed_ptr, rows_ptr, queries, points,
    K: tl.constexpr, QUERIES: tl.constexpr, POINTS: tl.constexpr, CAPACITY: tl.constexpr,
    ALL: tl.constexpr,
):  # fmt: skip
    """K nearest points for QUERIES queries of one patch; the last query may be repeated.

    queries_ptr  (B, M, 3), points_ptr (B, 3, N), packed_ptr CAPACITY rows for each query
    ALL          N = POINTS
    """
    patch = tl.program_id(1).to(tl.int64)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    query = patch * queries + tl.minimum(query, queries - 1)
    points_at = points_ptr + patch * points * 3
    # In this order of axes Triton keeps all points of a lane in one thread.
    lane = tl.arange(0, LANES)[None, :, None, None]
    turn = tl.arange(0, POINTS // (LANES * QUAD))[None, None, :, None]
    quad = tl.arange(0, QUAD)[None, None, None, :]
    row = turn * (LANES * QUAD) + lane * QUAD + quad
    is_point = row < points
    query_at = queries_ptr + query * 3
    sq_distance = _sq_distances(
        query_at[:, None, None, None], points_at, row, is_point, points, ALL
    )

    least = tl.reshape(tl.min(sq_distance, 2), (QUERIES, LANES * QUAD))
    within = sq_distance <= _bound(least, K)[:, None, None, None]
    within = within if ALL else within & is_point
    # A point is packed after all earlier lanes, and after the earlier points of its lane.
    counted = within.to(tl.int32)
    of_quad = tl.sum(counted, 3)
    of_lane = tl.sum(of_quad, 2)
    before = tl.cumsum(of_quad, 2) - of_quad + (tl.cumsum(of_lane, 1) - of_lane)[:, :, None]
    place = before[:, :, :, None] + tl.cumsum(counted, 3) - 1
    found = tl.sum(of_lane, 1)

    result_at = rows_ptr + query[:, None] * K
    if tl.max(found, 0) <= CAPACITY:
        rows = tl.broadcast_to(row, within.shape)
        tl.store(packed_ptr + query[:, None, None, None] * CAPACITY + place, rows, mask=within)
        tl.debug_barrier()
        slot = tl.arange(0, CAPACITY)[None, :]
        filled = slot < found[:, None]
        near = tl.load(packed_ptr + query[:, None] * CAPACITY + slot, mask=filled, other=0)
        sq_near = _sq_distances(query_at[:, None], points_at, near, filled, points, False)
        rank = _ranks(sq_near, near, slot, found)
        tl.store(result_at + rank, near.to(tl.int64), mask=filled & (rank < K))
    else:
        for k in range(K):
            nearest = tl.min(tl.min(tl.min(sq_distance, 3), 2), 1)
            is_least = sq_distance == nearest[:, None, None, None]
            taken = tl.min(tl.min(tl.min(tl.where(is_least, row, POINTS), 3), 2), 1)
            tl.store(result_at + k, taken[:, None].to(tl.int64))
            sq_distance = tl.where(row == taken[:, None, None, None], float("inf"), sq_distance)


@triton.jit
def nearest_one_kernel(
    queries_ptr, points_ptr, rows_ptr, queries, points, QUERIES: tl.constexpr, LANES: tl.constexpr
):  # fmt: skip
    """The nearest point for QUERIES queries of one patch; of several, the lowest row.

    Lanes start with row 0 and infinity, so that a query without finite distances gets a valid row.
    """
    patch = tl.program_id(1).to(tl.int64)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    is_query = query < queries
    query_at = queries_ptr + (patch * queries + query) * 3
    x = tl.load(query_at, mask=is_query, other=0.0)[:, None]
    y = tl.load(query_at + 1, mask=is_query, other=0.0)[:, None]
    z = tl.load(query_at + 2, mask=is_query, other=0.0)[:, None]
    points_at = points_ptr + patch * points * 3
    lane = tl.arange(0, LANES)
    best = tl.full((QUERIES, LANES), float("inf"), tl.float32)
    first = tl.zeros((QUERIES, LANES), tl.int32)
    for start in range(0, points, LANES):
        is_point = start + lane < points
        point_at = points_at + (start + lane) * 3
        dx = x - tl.load(point_at, mask=is_point, other=float("inf"))[None, :]
        dy = y - tl.load(point_at + 1, mask=is_point, other=float("inf"))[None, :]
        dz = z - tl.load(point_at + 2, mask=is_point, other=float("inf"))[None, :]
        sq_distance = dx * dx + dy * dy + dz * dz
        closer = sq_distance < best
        best = tl.where(closer, sq_distance, best)
        first = tl.where(closer, start, first)
    row = tl.where(best == tl.min(best, 1)[:, None], first + lane[None, :], points)
    result = tl.min(row, 1).to(tl.int64)
    tl.store(rows_ptr + patch * queries + query, result, mask=is_query)


def nearest(
    queries: Tensor,
    points: Tensor,
    k: int,
    per_program: int = 1,
    warps: int = 1,
) -> Tensor:
    """Rows (B, M, K) int64 of the k nearest points (B, N, 3) for queries (B, M, 3), nearest first.

    Of equally near points, the lower row comes first.

    per_program, warps  queries and warps of one program
    """
    if k == 1:
        return nearest_one(queries, points)[..., None]
    batch, count, _ = queries.shape
    padded = max(triton.next_power_of_2(points.shape[1]), PILES)
    capacity = max(64, 2 * triton.next_power_of_2(k))
    # Fewer registers allow more warps, but only if the distances still fit.
    registers = {"maxnreg": 96} if padded <= 1024 else {}
    rows = queries.new_empty((batch, count, k), dtype=torch.long)
    packed = queries.new_empty((batch, count, capacity), dtype=torch.int32)
    nearest_kernel[triton.cdiv(count, per_program), batch](
        queries, points.mT.contiguous(), packed, rows, count, points.shape[1],
        K=k, QUERIES=per_program, POINTS=padded, CAPACITY=capacity,
        ALL=points.shape[1] == padded, num_warps=warps, **registers,
    )  # fmt: skip
    return rows


def nearest_one(queries: Tensor, points: Tensor) -> Tensor:
    """Rows (B, M) int64 of the nearest point (B, N, 3) for queries (B, M, 3)."""
    batch, count, _ = queries.shape
    rows = queries.new_empty((batch, count), dtype=torch.long)
    nearest_one_kernel[triton.cdiv(count, ONE_QUERIES), batch](
        queries, points, rows, count, points.shape[1],
        QUERIES=ONE_QUERIES, LANES=ONE_LANES, num_warps=ONE_WARPS,
    )  # fmt: skip
    return rows
