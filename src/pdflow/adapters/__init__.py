"""Adapters: how clouds of other libraries become a `PointCloud`, and clean points their kind again.

| kind | coordinates | other data of the points |
|---|---|---|
| `PointCloud` | `points` | `attributes` |
| array, nested lists | the first three columns | the other columns |
| torch tensor | the first three columns | the other columns |
| Open3D, legacy | `points` | `colors`, `normals`, `covariances` |
| Open3D, tensor | `point.positions` | all of `point` |
| trimesh | `vertices` | colours, `vertex_attributes` |
| PyVista | `points` | `point_data` |
| any other object | `points` | arrays with one row per point |

None of these libraries is imported: whoever has a cloud of a library has imported it, so its
classes are found in `sys.modules`. A new kind is one file with one `Adapter`, and one entry in
`ADAPTERS`.
"""

from __future__ import annotations

from typing import Any

from pdflow.adapters.adapter import Adapter
from pdflow.adapters.array import ArrayAdapter
from pdflow.adapters.open3d_legacy import LegacyAdapter
from pdflow.adapters.open3d_tensor import TensorCloudAdapter
from pdflow.adapters.own import PointCloudAdapter
from pdflow.adapters.points import PointsAdapter
from pdflow.adapters.pyvista import PyVistaAdapter
from pdflow.adapters.tensor import TensorAdapter
from pdflow.adapters.trimesh import TrimeshAdapter

ADAPTERS: tuple[type[Adapter], ...] = (
    PointCloudAdapter,
    TensorAdapter,
    LegacyAdapter,
    TensorCloudAdapter,
    TrimeshAdapter,
    PyVistaAdapter,
    PointsAdapter,
    ArrayAdapter,
)
"""Every kind; the first that takes a cloud adapts it."""


def adapt(cloud: Any) -> Adapter:
    """The adapter of a cloud. The last kind takes anything, and refuses what is no array.

    >>> type(adapt([[0, 0, 0]])).__name__
    'ArrayAdapter'
    """
    return next(kind(cloud) for kind in ADAPTERS if kind.takes(cloud))
