"""Denoise a cloud with a network for patches: cut, run, stitch, as the rivals' commands do.

Seeds are farthest points and patches their nearest neighbours. Each point is taken from the patch
in which it is most central, or the union of all patches is sampled again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pdflow.bench.cases import Points
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.farthest import farthest_point_sampling
from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.neighbors import knn

if TYPE_CHECKING:
    import torch

Network = Callable[["torch.Tensor"], "torch.Tensor"]
"""Noisy patches (B, N, 3) to clean ones, in float32 on the network's device."""


@dataclass(frozen=True)
class Patching:
    """How a cloud is cut and put together again.

    points     N of a patch
    overlap    patches that hold a point, on average
    batch      patches that go through the network together
    centred    whether the seed of a patch is its origin
    resampled  sample the union of all patches; else every point keeps its row
    """

    points: int
    overlap: int
    batch: int
    centred: bool = True
    resampled: bool = False


def denoise_by_patches(
    points: Points, network: Network, patching: Patching, passes: int = 1
) -> Points:
    """Points (M, 3) after some passes, each over the result of the one before."""
    frame = unit_sphere(points)
    cloud = frame.apply(points)
    for _ in range(passes):
        cloud = _one_pass(cloud, network, patching)
    return frame.undo(cloud)


def _one_pass(cloud: Points, network: Network, patching: Patching) -> Points:
    size = min(patching.points, len(cloud))
    seeds = cloud[farthest_point_sampling(cloud, max(1, patching.overlap * len(cloud) // size))]
    sq_distances, rows = knn(cloud, seeds, size)
    origins = seeds[:, None] if patching.centred else np.zeros((len(seeds), 1, 3))
    moved = _run(cloud[rows] - origins, network, patching.batch) + origins
    if patching.resampled:
        union = moved.reshape(-1, 3)
        return union[farthest_point_sampling(union, len(cloud))]
    return most_central(cloud, rows, sq_distances, moved)


def _run(patches: FloatArray, network: Network, batch: int) -> FloatArray:
    import torch

    with torch.no_grad():
        parts = torch.as_tensor(patches, dtype=torch.float32).split(batch)
        return np.concatenate([network(part).cpu().numpy() for part in parts]).astype(np.float64)


def most_central(
    cloud: Points, rows: IntArray, sq_distances: FloatArray, moved: FloatArray
) -> Points:
    """Each point (M, 3) as predicted by the patch in which it is most central.

    rows          (P, N) points of each patch, nearest to its seed first
    sq_distances  (P, N) from its seed
    moved         (P, N, 3) predictions

    A point is the more central, the smaller its distance as a share of the patch's largest one.
    Points that no patch holds stay; the rivals' own code drops them.
    """
    shares = sq_distances / np.maximum(sq_distances[:, -1:], np.finfo(np.float64).tiny)
    order = np.lexsort((shares.ravel(), rows.ravel()))
    held, first = np.unique(rows.ravel()[order], return_index=True)
    result = np.array(cloud)
    result[held] = moved.reshape(-1, 3)[order[first]]
    return result
