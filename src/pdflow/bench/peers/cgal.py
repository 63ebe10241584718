"""CGAL's point set processing, through its Python binding."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdflow.bench.cases import Points
from pdflow.bench.peers.rule import Neighbourhood, Rule

ORIENTING_NEIGHBOURS = 18
"""Neighbours used to orient normals: the value in CGAL's examples."""
WLOP_STEPS = 35
"""Steps of WLOP: CGAL's default."""


def jet(points: Points, around: Neighbourhood, rule: Rule) -> Points:
    """Each point is projected onto a quadric fitted to its neighbours (Cazals and Pouget)."""
    from CGAL import CGAL_Point_set_processing_3 as processing

    cloud = _to_cgal(points)
    processing.jet_smooth_point_set(cloud, around.k)
    return _from_cgal(cloud)


def bilateral(points: Points, around: Neighbourhood, rule: Rule) -> Points:
    """Edge-aware bilateral projection (Huang et al.); `strength` is its sharpness in degrees.

    Normals must be oriented, or CGAL's result contains NaN. It drops points that it cannot orient,
    which happens on open surfaces and in trees: they stay where they are.
    """
    from CGAL import CGAL_Point_set_processing_3 as processing

    cloud = _to_cgal(points)
    processing.jet_estimate_normals(cloud, around.k)
    processing.mst_orient_normals(cloud, ORIENTING_NEIGHBOURS)
    processing.bilateral_smooth_point_set(cloud, around.k, 0.0, rule.strength)
    smooth: Points = np.array(points)
    smooth[list(cloud.indices())] = _from_cgal(cloud)
    return smooth


def wlop(points: Points, around: Neighbourhood, rule: Rule) -> Points:
    """Weighted locally optimal projection (Huang et al.) that keeps all points."""
    from CGAL import CGAL_Point_set_processing_3 as processing
    from CGAL.CGAL_Point_set_3 import Point_set_3

    result = Point_set_3()
    processing.wlop_simplify_and_regularize_point_set(
        _to_cgal(points), result, 100.0, around.radius, WLOP_STEPS, False
    )
    return _from_cgal(result)


def _to_cgal(points: Points) -> Any:
    from CGAL.CGAL_Kernel import Point_3
    from CGAL.CGAL_Point_set_3 import Point_set_3

    cloud = Point_set_3()
    for x, y, z in points.tolist():
        cloud.insert(Point_3(x, y, z))
    return cloud


def _from_cgal(cloud: Any) -> Points:
    return np.array([(point.x(), point.y(), point.z()) for point in cloud.points()])
