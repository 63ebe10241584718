"""`nearest` in plain torch and scipy."""

from __future__ import annotations

import torch
from torch import Tensor


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
