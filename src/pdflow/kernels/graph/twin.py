"""`nearest` in plain torch and scipy."""

from __future__ import annotations

import torch
from torch import Tensor


def nearest_torch(queries: Tensor, points: Tensor, k: int) -> Tensor:
    """`nearest` in float64: k-d trees on the CPU, all distances on other devices.

    A k-d tree refuses numbers that are not finite. They count as 0, so that a training step with
    such numbers reaches the check that skips it.
    """
    if points.device.type == "cpu":
        from scipy.spatial import cKDTree  # takes half a second, which inference saves

        finite = (x.double().nan_to_num(0.0, 0.0, 0.0).numpy() for x in (queries, points))
        pairs = zip(*finite, strict=True)
        rows = [cKDTree(patch).query(query, range(1, k + 1))[1] for query, patch in pairs]
        return torch.stack([torch.from_numpy(row) for row in rows]).long()
    distances = torch.cdist(
        queries.double(), points.double(), compute_mode="donot_use_mm_for_euclid_dist"
    )
    return distances.topk(k, largest=False).indices
