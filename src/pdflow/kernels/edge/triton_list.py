# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Lists of the active edges of an EdgeUnit, on CUDA: those that won the maximum of any channel.

The backward pass loops over the list, which lets it load the features of an edge ahead of time.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

NO_EDGE = tl.constexpr(254)


@triton.jit
def edge_list_kernel(
    graph_ptr, active_ptr, list_ptr, lengths_ptr, graph_patch_stride, graph_node_stride, points,
    K: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The active edges of TILE nodes, as (K, TILE) numbers: the first of each node, the second, ...

    A number is target * 2^16 + k, with k as the bits of a bf16 number, ready to be compared. Nodes
    with fewer edges have k = NO_EDGE. `lengths` is the number of steps with any edge.
    """
    tile = tl.program_id(0)
    patch = tl.program_id(1)
    patches = tl.program_id(2) * tl.num_programs(1) + patch
    row = tl.arange(0, TILE)
    node = tile * TILE + row
    rest = tl.load(active_ptr + patches.to(tl.int64) * points + node, mask=node < points, other=0)
    graph = graph_ptr + patch.to(tl.int64) * graph_patch_stride + node * graph_node_stride
    at = (patches * tl.num_programs(0) + tile).to(tl.int64)
    length = tl.zeros((TILE,), tl.int32)
    for step in tl.static_range(K):
        is_edge = rest != 0
        length += is_edge.to(tl.int32)
        lowest = rest & -rest
        rest = rest ^ lowest
        # The exponent of a power of two is the number of its bit.
        k = ((lowest.to(tl.float32).to(tl.int32, bitcast=True) >> 23) & 255) - 127
        target = tl.load(graph + k, mask=is_edge, other=0).to(tl.int32)
        number = tl.where(is_edge, k, NO_EDGE).to(tl.float32).to(tl.int32, bitcast=True) >> 16
        tl.store(list_ptr + (at * K + step) * TILE + row, (target << 16) | number)
    tl.store(lengths_ptr + at, tl.max(length, 0))


def list_edges(neighbours: Tensor, active: Tensor, tile: int) -> tuple[Tensor, Tensor]:
    """Launch the kernel that lists active edges.

    returns  edges (G, B, tiles, steps, tile), with an even number of steps, and the number of steps
             with any edge (G, B, tiles)
    """
    groups, batch, points = active.shape
    tiles = triton.cdiv(points, tile)
    k = max(2, triton.next_power_of_2(neighbours.shape[-1]))
    edges = active.new_empty((groups, batch, tiles, k, tile), dtype=torch.int32)
    lengths = active.new_empty((groups, batch, tiles), dtype=torch.int32)
    edge_list_kernel[tiles, batch, groups](
        neighbours, active, edges, lengths, neighbours.stride(0), neighbours.stride(1), points,
        K=k, TILE=tile, num_warps=2,
    )  # fmt: skip
    return edges, lengths
