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

    def best(part: Tensor, own: Tensor) -> Tensor:
        count = part.shape[0]  # torch.export keeps it open, unlike len
        edges = neighbour.index_select(1, part.reshape(-1)).view(groups, count, k, width)
        product = torch.bmm(torch.relu(edges + own).view(groups, -1, width), weight)
        return product.view(groups, count, k, width).amax(2)

    if torch.is_grad_enabled():
        found = best(rows, centre)
    else:
        step = max(1, CHUNK_EDGES // k)
        parts = zip(rows.split(step), centre.split(step, 1), strict=True)
        found = torch.cat([best(part, own) for part, own in parts], 1)
    pooled = torch.relu(found + bias[:, None])
    return pooled.view(groups, batch, points, width)
