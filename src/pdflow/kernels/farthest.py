"""Farthest point sampling of many clouds at once."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.errors import PdflowError
from pdflow.kernels import runs_triton

_FUSED_POINTS = 8192
_LARGEST_FUSED_POINTS = 32768
_MANY_CLOUDS = 4
"""Up to how many points clouds are sampled by the fused kernel: the second number where there are
many, since a larger one alone is sampled faster by one core."""


@torch.no_grad()
def farthest_points(points: Tensor, count: int, start: int = 0) -> Tensor:
    """Rows of each cloud, each the farthest from all rows before it.

    points   (B, M, 3)
    start    the first row
    returns  (B, count) int64; of points equally far the one of the lowest row, and no row twice

    On a CPU, and for large clouds, it is `pdflow.geometry.farthest_point_sampling`, exact in
    float64, cloud by cloud. The fused kernel measures in float32, without a look at the points:
    those that are not finite are far from everything, so that they come first.
    """
    batch, size, dims = points.shape
    if dims != 3 or not 0 <= count <= size or not 0 <= start < max(size, 1):
        raise PdflowError(
            f"Cannot sample {count} points from row {start} of clouds {tuple(points.shape)}: give "
            "clouds (B, M, 3), a count from 0 to M and a row from 0 to M - 1."
        )
    if batch == 0 or count == 0:
        return torch.empty(batch, count, dtype=torch.long, device=points.device)
    largest = _LARGEST_FUSED_POINTS if batch >= _MANY_CLOUDS else _FUSED_POINTS
    if points.device.type == "cpu" or size > largest:
        from pdflow.geometry.farthest import farthest_point_sampling

        clouds = points.double().cpu().numpy()
        rows = [farthest_point_sampling(cloud, count, start) for cloud in clouds]
        return torch.stack([torch.from_numpy(each) for each in rows]).to(points.device)
    if points.dtype == torch.float32 and runs_triton(points):
        from pdflow.kernels import farthest_triton

        return farthest_triton.farthest_points(points, count, start)
    return farthest_points_torch(points, count, start)


def farthest_points_torch(points: Tensor, count: int, start: int = 0) -> Tensor:
    """`farthest_points` in plain torch, for any device and type."""
    batch, size, _ = points.shape
    x, y, z = points.unbind(-1)
    sq_near = points.new_full((batch, size), torch.inf)
    here = torch.full((batch, 1), start, device=points.device)
    rows = []
    for _ in range(count):
        rows.append(here)
        dx, dy, dz = (axis - axis.gather(1, here) for axis in (x, y, z))
        sq_distance = dx * dx + dy * dy + dz * dz
        sq_near = sq_distance.where(sq_distance < sq_near, sq_near)
        sq_near.scatter_(1, here, -1.0)
        here = sq_near.argmax(1, keepdim=True)
    return torch.cat(rows, 1)
