"""Our stand-ins for the packages that the rivals' networks call: PyTorch3D and PyTorch Geometric.

Only what these networks need to denoise, for any device, in plain torch.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Neighbours(NamedTuple):
    """Result of `knn_points`: squared distances and rows (B, N, K), and points (B, N, K, C)."""

    dists: Tensor
    idx: Tensor
    knn: Tensor | None


def knn_points(
    p1: Tensor, p2: Tensor, *, K: int = 1, return_nn: bool = False, return_sorted: bool = True
) -> Neighbours:
    """The K points of `p2` (B, M, C) nearest to each one of `p1` (B, N, C), nearest first.

    Sorted or not asks for the same here: sorted neighbours are unsorted ones, too.
    """
    found = [_nearest(*pair, K) for pair in zip(p1, p2, strict=True)]
    distances, rows = (torch.stack(part) for part in zip(*found, strict=True))
    return Neighbours(distances**2, rows, knn_gather(p2, rows) if return_nn else None)


def _nearest(queries: Tensor, points: Tensor, count: int) -> tuple[Tensor, Tensor]:
    # Differences, not products: products lose the digits that tell near neighbours apart.
    mode = "donot_use_mm_for_euclid_dist"
    distances, rows = torch.cdist(queries, points, compute_mode=mode).topk(count, largest=False)
    return distances, rows


def knn_gather(x: Tensor, idx: Tensor) -> Tensor:
    """Values (B, N, K, C) of `x` (B, M, C) at the rows `idx` (B, N, K)."""
    return torch.stack([values[rows] for values, rows in zip(x, idx, strict=True)])


class MessagePassing(nn.Module):
    """Messages along edges, of which each node keeps the largest, channel by channel."""

    def __init__(self, aggr: str = "max") -> None:
        super().__init__()
        if aggr != "max":
            raise NotImplementedError(f"messages are pooled by their maximum, not by {aggr}")

    def propagate(self, edge_index: Tensor, x: Tensor) -> Tensor:
        """Pooled messages (V, C) for nodes `x` (V, C); edges (2, E) run from row 0 to row 1."""
        start, end = edge_index
        messages = self.message(x[end], x[start])
        pooled = messages.new_zeros(len(x), messages.shape[1])
        into = end[:, None].expand_as(messages)
        return pooled.scatter_reduce(0, into, messages, "amax", include_self=False)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        """Messages (E, C) from the nodes `x_j` to `x_i`."""
        raise NotImplementedError


def remove_self_loops(edge_index: Tensor) -> tuple[Tensor, None]:
    """Edges (2, E) between different nodes."""
    return edge_index[:, edge_index[0] != edge_index[1]], None


def keep_parameters(_: Any) -> None:
    """In place of drawing new parameters: trained ones are loaded afterwards."""


def stand_in_modules() -> dict[str, ModuleType]:
    """Module name -> stand-in."""
    return {
        "pytorch3d.ops": _module("pytorch3d.ops", knn_points=knn_points, knn_gather=knn_gather),
        "torch_geometric.nn": _module("torch_geometric.nn", MessagePassing=MessagePassing),
        "torch_geometric.nn.inits": _module("torch_geometric.nn.inits", reset=keep_parameters),
        "torch_geometric.utils": _module(
            "torch_geometric.utils",
            remove_self_loops=remove_self_loops,
            get_laplacian=None,
            to_dense_adj=None,
        ),
    }


def _module(name: str, **members: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(members)
    return module
