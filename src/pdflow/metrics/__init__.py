"""Metrics that judge the output of any method; nothing here knows the model.

Every metric takes clouds, numpy arrays, or torch tensors on any device, and returns a Python float.
Its docstring states its frame: CD, HD, P2S and EMD are measured in the unit sphere of the
ground-truth points, P2M, RMS and uniformity in that of the mesh. `sq_*` uses squared distances.

    from pdflow.metrics import measure, sq_chamfer
    measure(pred, clean, mesh)          # {"cd": ..., "hd": ..., "p2m": ...}

Importing this package is cheap: each metric is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdflow.lazy import lazy_names

if TYPE_CHECKING:
    from pdflow.metrics.disks import uniformity as uniformity
    from pdflow.metrics.matching import earth_movers as earth_movers
    from pdflow.metrics.matching import sq_earth_movers as sq_earth_movers
    from pdflow.metrics.nearest import chamfer as chamfer
    from pdflow.metrics.nearest import hausdorff as hausdorff
    from pdflow.metrics.nearest import sq_chamfer as sq_chamfer
    from pdflow.metrics.nearest import sq_hausdorff as sq_hausdorff
    from pdflow.metrics.per_point import point_errors as point_errors
    from pdflow.metrics.planes import estimate_normals as estimate_normals
    from pdflow.metrics.planes import point_to_surface as point_to_surface
    from pdflow.metrics.planes import sq_point_to_surface as sq_point_to_surface
    from pdflow.metrics.suite import METRICS as METRICS
    from pdflow.metrics.suite import choose_metrics as choose_metrics
    from pdflow.metrics.suite import measure as measure
    from pdflow.metrics.surface import point_to_mesh as point_to_mesh
    from pdflow.metrics.surface import sq_point_to_mesh as sq_point_to_mesh
    from pdflow.metrics.surface import sq_point_to_mesh_pytorch3d as sq_point_to_mesh_pytorch3d
    from pdflow.metrics.surface import surface_rms as surface_rms
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "disks": ["uniformity"],
            "matching": ["earth_movers", "sq_earth_movers"],
            "nearest": ["chamfer", "hausdorff", "sq_chamfer", "sq_hausdorff"],
            "per_point": ["point_errors"],
            "planes": ["estimate_normals", "point_to_surface", "sq_point_to_surface"],
            "suite": ["METRICS", "choose_metrics", "measure"],
            "surface": [
                "point_to_mesh",
                "sq_point_to_mesh",
                "sq_point_to_mesh_pytorch3d",
                "surface_rms",
            ],
        },
    )
