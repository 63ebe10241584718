# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Farthest point sampling on CUDA: one program for each cloud, its distances in registers.

A pick waits for the one before it, so one program cannot be fast; many of them side by side are.
Squares are added without fused multiply-adds, as torch does it, so that both pick the same rows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

RESIDENT_POINTS = 8192
"""Clouds up to this size keep their coordinates in registers, too."""


@triton.jit(do_not_specialize=["count", "start"])
def farthest_kernel(
    points_ptr, rows_ptr, points, count, start, POINTS: tl.constexpr, RESIDENT: tl.constexpr
):  # fmt: skip
    """`count` rows of one cloud.

    points_ptr  (B, 3, M), rows_ptr (B, count)
    RESIDENT    coordinates are loaded once, not for every pick

    Squared distances to the nearest pick are -1 for picks and -2 where there is no point.
    """
    cloud = tl.program_id(0).to(tl.int64)
    points_at = points_ptr + cloud * points * 3
    rows_at = rows_ptr + cloud * count
    row = tl.arange(0, POINTS)
    is_point = row < points
    sq_near = tl.where(is_point, float("inf"), -2.0)
    if RESIDENT:
        x = tl.load(points_at + row, mask=is_point, other=0.0)
        y = tl.load(points_at + points + row, mask=is_point, other=0.0)
        z = tl.load(points_at + 2 * points + row, mask=is_point, other=0.0)
    here = start
    for pick in range(count):
        tl.store(rows_at + pick, here.to(tl.int64))
        if not RESIDENT:
            x = tl.load(points_at + row, mask=is_point, other=0.0)
            y = tl.load(points_at + points + row, mask=is_point, other=0.0)
            z = tl.load(points_at + 2 * points + row, mask=is_point, other=0.0)
        dx = x - tl.load(points_at + here)
        dy = y - tl.load(points_at + points + here)
        dz = z - tl.load(points_at + 2 * points + here)
        sq_distance = dx * dx + dy * dy + dz * dz
        sq_near = tl.where(sq_distance < sq_near, sq_distance, sq_near)
        sq_near = tl.where(row == here, -1.0, sq_near)
        here = tl.argmax(sq_near, 0)


def farthest_points(points: Tensor, count: int, start: int = 0, warps: int | None = None) -> Tensor:
    """Rows (B, count) int64 of clouds (B, M, 3) in float32.

    warps  of a program; by default 8 to 32 points for each thread: fewer warps wait less
    """
    batch, size, _ = points.shape
    padded = triton.next_power_of_2(size)
    if warps is None:
        warps = max(1, min(4, padded // 256), padded // 1024)
    rows = torch.empty(batch, count, dtype=torch.long, device=points.device)
    farthest_kernel[(batch,)](
        points.mT.contiguous(), rows, size, count, start,
        POINTS=padded, RESIDENT=padded <= RESIDENT_POINTS, num_warps=warps, enable_fp_fusion=False,
    )  # fmt: skip
    return rows
