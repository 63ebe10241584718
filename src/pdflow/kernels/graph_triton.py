# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Nearest neighbours within patches on CUDA: exact fp32 distances, a few queries per program.

All N distances of a query stay in registers. The points are dealt into 2 K piles or more; the
K-th smallest of the piles' minima bounds the K-th smallest distance from above, and few more than
K points lie within the bound. Those alone are packed together and ranked by counting. Where more
than CAPACITY lie within it (many equal points), K passes over all distances take one by one.

For K = 1 there is nothing to rank: every lane keeps the best of the points it has seen.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

FARTHEST = tl.constexpr(3e38)


@triton.jit
def _sq_distances(query_at, is_query, point_at, is_point):
    """Sums of squared differences of coordinates, infinite where there is no point.

    What is no number, or infinite, counts as FARTHEST: it must not be mistaken for no point, or
    rows beyond the last would be returned.
    """
    sq_distance = 0.0
    for axis in tl.static_range(3):
        from_query = tl.load(query_at + axis, mask=is_query, other=0.0)
        to_point = tl.load(point_at + axis, mask=is_point, other=0.0)
        difference = from_query[:, None] - to_point
        sq_distance += difference * difference
    sq_distance = tl.where(sq_distance < FARTHEST, sq_distance, FARTHEST)
    return tl.where(is_point, sq_distance, float("inf"))


@triton.jit
def nearest_kernel(
    queries_ptr, points_ptr, packed_ptr, rows_ptr, queries, points,
    K: tl.constexpr, QUERIES: tl.constexpr, POINTS: tl.constexpr, PILES: tl.constexpr,
    CAPACITY: tl.constexpr,
):  # fmt: skip
    """K nearest points for QUERIES queries of one patch; packed_ptr is CAPACITY rows for each."""
    patch = tl.program_id(1).to(tl.int64)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    is_query = query < queries
    query_at = queries_ptr + (patch * queries + query) * 3
    points_at = points_ptr + patch * points * 3
    packed_at = packed_ptr + (patch * queries + query)[:, None] * CAPACITY
    result_at = rows_ptr + (patch * queries + query)[:, None] * K
    row = tl.arange(0, POINTS)[None, :]
    is_point = row < points
    sq_distance = _sq_distances(query_at, is_query, points_at + row * 3, is_point)

    least = tl.min(tl.reshape(sq_distance, (QUERIES, POINTS // PILES, PILES)), 1)
    not_above = tl.sum((least[:, :, None] <= least[:, None, :]).to(tl.int32), 1)
    bound = tl.min(tl.where(not_above >= K, least, float("inf")), 1)
    within = (sq_distance <= bound[:, None]) & is_point
    place = tl.cumsum(within.to(tl.int32), 1) - 1
    found = tl.sum(within.to(tl.int32), 1)

    if tl.max(found, 0) <= CAPACITY:
        rows = tl.broadcast_to(row, (QUERIES, POINTS))
        tl.store(packed_at + place, rows, mask=within & is_query[:, None])
        tl.debug_barrier()
        slot = tl.arange(0, CAPACITY)[None, :]
        filled = (slot < found[:, None]) & is_query[:, None]
        near = tl.load(packed_at + slot, mask=filled, other=0)
        sq_near = _sq_distances(query_at, is_query, points_at + near * 3, filled)
        closer = sq_near[:, :, None] < sq_near[:, None, :]
        equal = sq_near[:, :, None] == sq_near[:, None, :]
        earlier = slot[:, :, None] < slot[:, None, :]
        rank = tl.sum((closer | (equal & earlier)).to(tl.int32), 1)
        tl.store(result_at + rank, near.to(tl.int64), mask=filled & (rank < K))
    else:
        for k in range(K):
            is_least = sq_distance == tl.min(sq_distance, 1)[:, None]
            taken = tl.min(tl.where(is_least, row, POINTS), 1)[:, None]
            tl.store(result_at + k, taken.to(tl.int64), mask=is_query[:, None])
            sq_distance = tl.where(row == taken, float("inf"), sq_distance)


@triton.jit
def nearest_one_kernel(
    queries_ptr, points_ptr, rows_ptr, queries, points, QUERIES: tl.constexpr, LANES: tl.constexpr
):  # fmt: skip
    """The nearest point for QUERIES queries of one patch; the lowest row where several are.

    Lanes begin at row 0 and infinity, so that a query without finite distances gets a valid row.
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
    registers: int | None = 128,
) -> Tensor:
    """Rows (B, M, K) int64 of the k nearest points (B, N, 3) for queries (B, M, 3), nearest first.

    Of equally near points the one of the lower row comes first.

    per_program, warps, registers  how the kernel is launched: queries and warps of one program,
                                   and registers of one thread (None: the compiler's choice)
    """
    if k == 1:
        return nearest_one(queries, points)[..., None]
    options = {} if registers is None else {"maxnreg": registers}
    batch, count, _ = queries.shape
    piles = 2 * triton.next_power_of_2(k)
    padded = max(triton.next_power_of_2(points.shape[1]), piles)
    capacity = max(64, piles)
    rows = queries.new_empty((batch, count, k), dtype=torch.long)
    packed = queries.new_empty((batch, count, capacity), dtype=torch.int32)
    nearest_kernel[triton.cdiv(count, per_program), batch](
        queries, points, packed, rows, count, points.shape[1],
        K=k, QUERIES=per_program, POINTS=padded, PILES=piles, CAPACITY=capacity,
        num_warps=warps, **options,
    )  # fmt: skip
    return rows


def nearest_one(
    queries: Tensor, points: Tensor, per_program: int = 64, lanes: int = 32, warps: int = 4
) -> Tensor:
    """Rows (B, M) int64 of the nearest point (B, N, 3) for queries (B, M, 3).

    per_program, lanes, warps  how the kernel is launched: queries of one program, points it looks
                               at together, and its warps
    """
    batch, count, _ = queries.shape
    rows = queries.new_empty((batch, count), dtype=torch.long)
    nearest_one_kernel[triton.cdiv(count, per_program), batch](
        queries, points, rows, count, points.shape[1],
        QUERIES=per_program, LANES=lanes, num_warps=warps,
    )  # fmt: skip
    return rows
