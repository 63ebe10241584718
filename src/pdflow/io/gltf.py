"""glTF meshes (GLB and GLTF), read and written by trimesh."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdflow.errors import PdflowError
from pdflow.extras import require
from pdflow.mesh import TriangleMesh


def read_mesh(path: Path) -> TriangleMesh:
    """All meshes of a scene as one, in the scene's frame."""
    trimesh = require("trimesh", extra="mesh", purpose="Reading glTF")
    try:
        scene = trimesh.load_scene(path, process=False)
        parts = [m for m in scene.dump() if hasattr(m, "faces") and len(m.faces)]
    except Exception as error:  # trimesh lets any error of its parsers through
        raise PdflowError(f"{path} is not a readable glTF file ({error}).") from error
    if not parts:
        raise PdflowError(f"{path} holds no triangles: give a file with a mesh.")
    starts = np.cumsum([0, *(len(m.vertices) for m in parts[:-1])])
    return TriangleMesh(
        np.concatenate([m.vertices for m in parts]),
        np.concatenate([m.faces + start for m, start in zip(parts, starts, strict=True)]),
    )


def write_mesh(path: Path, mesh: TriangleMesh) -> None:
    """One mesh as binary glTF; coordinates are float32 there."""
    trimesh = require("trimesh", extra="mesh", purpose="Writing glTF")
    made = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    path.write_bytes(made.export(file_type="glb"))
