"""The neighbour graph of patches."""

from __future__ import annotations

import torch
from scipy.spatial import cKDTree
from torch import Tensor


@torch.no_grad()
def patch_graph(points: Tensor, k: int) -> Tensor:
    """Nearest neighbours within each patch, the point itself included, nearest first.

    points   (B, N, D)
    returns  (B, N, K) int64, exact in float64
    """
    if k == 0:
        return torch.empty(*points.shape[:2], 0, dtype=torch.long, device=points.device)
    if points.device.type == "cpu":
        rows = [
            torch.from_numpy(cKDTree(patch).query(patch, range(1, k + 1))[1])
            for patch in points.double().numpy()
        ]
        return torch.stack(rows).long()
    exact = points.double()
    distances = torch.cdist(exact, exact, compute_mode="donot_use_mm_for_euclid_dist")
    return distances.topk(k, largest=False).indices
