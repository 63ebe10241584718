"""Pure functions on points: frame, neighbours, patches, sampling, triangles.

Importing this package is cheap: a name is imported from its module on first use, and only then
is numba loaded where that module needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdflow.geometry.farthest import farthest_point_sampling as farthest_point_sampling
    from pdflow.geometry.frame import Frame as Frame
    from pdflow.geometry.frame import unit_sphere as unit_sphere
    from pdflow.geometry.neighbors import ball_query as ball_query
    from pdflow.geometry.neighbors import knn as knn
    from pdflow.geometry.sampling import sample_mesh as sample_mesh
    from pdflow.geometry.triangles import cast_rays as cast_rays
    from pdflow.geometry.triangles import closest_on_mesh as closest_on_mesh
    from pdflow.geometry.triangles import faces_to_points as faces_to_points

_LAZY = {
    "Frame": "pdflow.geometry.frame",
    "ball_query": "pdflow.geometry.neighbors",
    "cast_rays": "pdflow.geometry.triangles",
    "closest_on_mesh": "pdflow.geometry.triangles",
    "faces_to_points": "pdflow.geometry.triangles",
    "farthest_point_sampling": "pdflow.geometry.farthest",
    "knn": "pdflow.geometry.neighbors",
    "sample_mesh": "pdflow.geometry.sampling",
    "unit_sphere": "pdflow.geometry.frame",
}

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module 'pdflow.geometry' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
