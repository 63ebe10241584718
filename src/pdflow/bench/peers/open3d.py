"""Open3D's smoothing filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdflow.bench.cases import Points
from pdflow.bench.peers.rule import Neighbourhood, Rule

SPATIAL = 0.5
"""Standard deviation of the bilateral filter in space, in radii of the neighbourhood."""
OUTLIER_NEIGHBOURS = 20
"""Neighbours of the statistical outlier removal: the value in Open3D's tutorial."""


def mls(points: Points, around: Neighbourhood, rule: Rule) -> Points:
    """Each point is projected onto a plane fitted to its neighbours with Gaussian weights."""
    return _from_open3d(_to_open3d(points).smooth_mls(_search(around)))


def bilateral(points: Points, around: Neighbourhood, rule: Rule) -> Points:
    """Mean of neighbours, weighted by distance and offset; `strength` is the latter's width in
    standard deviations of the noise. Normals are fitted over the same neighbours."""
    cloud = _to_open3d(points)
    cloud.estimate_normals(_search(around))
    smooth = cloud.smooth_bilateral(
        _search(around),
        sigma_s=SPATIAL * around.radius,
        sigma_r=max(rule.strength * around.noise, 1e-9 * around.radius),
    )
    return _from_open3d(smooth)


def taubin(points: Points, around: Neighbourhood, rule: Rule) -> Points:
    """Taubin's smoothing without shrinkage on the graph of neighbours, with default weights;
    `strength` is the number of its iterations."""
    smooth = _to_open3d(points).smooth_taubin(iterations=round(rule.strength), knn=around.k)
    return _from_open3d(smooth)


def remove_outliers(points: Points, around: Neighbourhood, rule: Rule) -> Points:
    """Statistical outlier removal, which moves no point; `strength` is its ratio of deviations."""
    kept, _ = _to_open3d(points).remove_statistical_outlier(OUTLIER_NEIGHBOURS, rule.strength)
    return _from_open3d(kept)


def _to_open3d(points: Points) -> Any:
    import open3d

    return open3d.geometry.PointCloud(open3d.utility.Vector3dVector(points))


def _from_open3d(cloud: Any) -> Points:
    return np.array(cloud.points)


def _search(around: Neighbourhood) -> Any:
    import open3d

    # Twice k: the radius decides, and the count only limits the time in dense clouds.
    return open3d.geometry.KDTreeSearchParamHybrid(around.radius, 2 * around.k)
