"""Nearest neighbours within patches: the graph of EdgeUnits, Eq. (21), and of condition nets."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.kernels import runs_triton
from pdflow.kernels.graph.twin import nearest_torch

_FUSED_POINTS = 2048
_FUSED_NEIGHBOURS = 64


@torch.no_grad()
def patch_graph(points: Tensor, k: int) -> Tensor:
    """The k nearest neighbours of each point in its patch, itself included, nearest first.

    points   (B, N, D)
    returns  (B, N, K) int64; exact in float64, or in float32 for the fused kernel
    """
    return nearest(points, points, k)


@torch.no_grad()
def nearest(queries: Tensor, points: Tensor, k: int) -> Tensor:
    """Rows of the k points nearest to each query, nearest first.

    queries  (B, M, D), points (B, N, D)
    returns  (B, M, K) int64
    """
    if k == 0:
        return torch.empty(*queries.shape[:2], 0, dtype=torch.long, device=points.device)
    fits = k == 1 or (points.shape[1] <= _FUSED_POINTS and k <= _FUSED_NEIGHBOURS)
    if fits and points.shape[2] == 3 and points.dtype == torch.float32 and runs_triton(points):
        from pdflow.kernels.graph import triton_nearest

        return triton_nearest.nearest(queries.contiguous(), points.contiguous(), k)
    return nearest_torch(queries, points, k)
