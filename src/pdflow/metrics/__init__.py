"""Numbers that judge anybody's output; nothing here knows the model.

Every metric takes clouds, numpy arrays, or torch tensors on any device, and gives a Python float.
Its docstring states its frame: CD, HD, P2S and EMD are measured in the unit sphere of the
ground-truth points, P2M, RMS and uniformity in that of the mesh. `sq_*` is of squared distances.

    from pdflow.metrics import measure, sq_chamfer
    measure(pred, clean, mesh)          # {"cd": ..., "hd": ..., "p2m": ...}

Importing this package is cheap: each metric is loaded by its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdflow.metrics.disks import ball_uniformity as ball_uniformity
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

_LAZY = {
    "METRICS": "suite",
    "ball_uniformity": "disks",
    "chamfer": "nearest",
    "choose_metrics": "suite",
    "earth_movers": "matching",
    "estimate_normals": "planes",
    "hausdorff": "nearest",
    "measure": "suite",
    "point_errors": "per_point",
    "point_to_mesh": "surface",
    "point_to_surface": "planes",
    "sq_chamfer": "nearest",
    "sq_earth_movers": "matching",
    "sq_hausdorff": "nearest",
    "sq_point_to_mesh": "surface",
    "sq_point_to_mesh_pytorch3d": "surface",
    "sq_point_to_surface": "planes",
    "surface_rms": "surface",
    "uniformity": "disks",
}

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module 'pdflow.metrics' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"pdflow.metrics.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
