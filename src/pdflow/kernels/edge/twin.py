"""`edge_max` in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK_EDGES = 8192
"""Edges of a chunk where no gradient is needed: few enough for their features to stay in the
cache."""


def edge_max_torch(
    centre: Tensor, neighbour: Tensor, neighbours: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """`edge_max` in plain torch, for any device and type."""
    groups, batch, points, width = centre.shape
    offset = torch.arange(batch, device=neighbours.device)[:, None, None] * points
    rows = (neighbours + offset).reshape(batch * points, -1)
    centre = centre.reshape(groups, batch * points, 1, width)
    neighbour = neighbour.reshape(groups, batch * points, width)
    k = rows.shape[1]
    step = batch * points
    if not torch.is_grad_enabled():
        step = max(1, CHUNK_EDGES // k)
    best = []
    for start in range(0, batch * points, step):
        part = rows[start : start + step]
        edges = neighbour.index_select(1, part.reshape(-1)).view(groups, len(part), k, width)
        hidden = torch.relu(edges + centre[:, start : start + step])
        product = torch.bmm(hidden.view(groups, -1, width), weight)
        best.append(product.view(groups, len(part), k, width).amax(2))
    pooled = torch.relu(torch.cat(best, 1) + bias[:, None])
    return pooled.view(groups, batch, points, width)
