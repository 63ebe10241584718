"""The neighbour graph of patches."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.kernels import runs_triton

_FUSED_POINTS = 2048
_FUSED_NEIGHBOURS = 64


@torch.no_grad()
def patch_graph(points: Tensor, k: int) -> Tensor:
    """Nearest neighbours within each patch, the point itself included, nearest first.

    points   (B, N, D)
    returns  (B, N, K) int64; exact in float64, or in float32 where the fused kernel runs
    """
    return nearest(points, points, k)


@torch.no_grad()
def nearest(queries: Tensor, points: Tensor, k: int) -> Tensor:
    """Rows of the k nearest points for every query, nearest first.

    queries  (B, M, D), points (B, N, D)
    returns  (B, M, K) int64
    """
    if k == 0:
        return torch.empty(*queries.shape[:2], 0, dtype=torch.long, device=points.device)
    fits = k == 1 or (points.shape[1] <= _FUSED_POINTS and k <= _FUSED_NEIGHBOURS)
    if fits and points.shape[2] == 3 and points.dtype == torch.float32 and runs_triton(points):
        from pdflow.kernels import graph_triton

        return graph_triton.nearest(queries.contiguous(), points.contiguous(), k)
    return nearest_torch(queries, points, k)


def nearest_torch(queries: Tensor, points: Tensor, k: int) -> Tensor:
    """`nearest` in float64: trees on the CPU, all distances elsewhere.

    Trees refuse what is not finite; it counts as 0 there, so that a training step with such
    numbers comes as far as the check that skips it.
    """
    if points.device.type == "cpu":
        from scipy.spatial import cKDTree  # half a second that inference does not need

        finite = (x.double().nan_to_num(0.0, 0.0, 0.0).numpy() for x in (queries, points))
        pairs = zip(*finite, strict=True)
        rows = [cKDTree(patch).query(query, range(1, k + 1))[1] for query, patch in pairs]
        return torch.stack([torch.from_numpy(row) for row in rows]).long()
    distances = torch.cdist(
        queries.double(), points.double(), compute_mode="donot_use_mm_for_euclid_dist"
    )
    return distances.topk(k, largest=False).indices
