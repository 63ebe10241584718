"""Point cloud denoising with normalizing flows.

The tree is the data path: read (`io`), normalise and patch (`geometry`), flow, filter and
inverse (`flow`, `model`), stitch (`geometry`), write (`io`).

Shape letters, used in every docstring (batch first, channels last):

    B  patches in a batch        M  points in a cloud
    N  points in a patch         P  patches in a cloud
    K  neighbours of a point     V  vertices of a mesh
    C  channels of a point       F  faces of a mesh

Importing this package is cheap: torch and numba are loaded by the first call that needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdflow.cloud import PointCloud as PointCloud
    from pdflow.io import open_reader as open_reader
    from pdflow.io import open_writer as open_writer
    from pdflow.io import read as read
    from pdflow.io import read_mesh as read_mesh
    from pdflow.io import write as write
    from pdflow.io import write_mesh as write_mesh
    from pdflow.mesh import TriangleMesh as TriangleMesh
    from pdflow.noise.estimate import estimate_noise as estimate_noise
    from pdflow.pipeline import Denoiser as Denoiser
    from pdflow.pipeline import denoise as denoise
    from pdflow.weights import load_model as load_model

__version__ = "0.1.0"

_LAZY = {
    "Denoiser": "pdflow.pipeline",
    "PointCloud": "pdflow.cloud",
    "TriangleMesh": "pdflow.mesh",
    "denoise": "pdflow.pipeline",
    "estimate_noise": "pdflow.noise.estimate",
    "load_model": "pdflow.weights",
    "open_reader": "pdflow.io",
    "open_writer": "pdflow.io",
    "read": "pdflow.io",
    "read_mesh": "pdflow.io",
    "write": "pdflow.io",
    "write_mesh": "pdflow.io",
}

__all__ = ["__version__", *sorted(_LAZY)]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module 'pdflow' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
