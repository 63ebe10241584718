"""Pure functions on points: frame, neighbours, patches, sampling, triangles.

Importing this package is cheap: a name is imported from its module on first use, and only then
is numba loaded where that module needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdflow.lazy import lazy_names

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
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "farthest": ["farthest_point_sampling"],
            "frame": ["Frame", "unit_sphere"],
            "neighbors": ["ball_query", "knn"],
            "sampling": ["sample_mesh"],
            "triangles": ["cast_rays", "closest_on_mesh", "faces_to_points"],
        },
    )
