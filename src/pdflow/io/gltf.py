"""glTF meshes (GLB and GLTF), read and written by trimesh.

glTF holds float32; the writer warns if rounding shows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdflow.errors import PdflowError
from pdflow.io.damage import name_file, reason
from pdflow.io.losses import single_precision_losses, warn_of_losses
from pdflow.lazy import require
from pdflow.mesh import TriangleMesh


def read_mesh(path: Path) -> TriangleMesh:
    """Read all meshes of a scene as one, in the frame of the scene."""
    trimesh = require("trimesh", extra="mesh", purpose="Reading glTF")

    class RegularFiles(trimesh.visual.resolvers.FilePathResolver):  # type: ignore[misc, name-defined]
        """Finds the files that a scene names beside it; a pipe or a device would never end."""

        def get(self, name: str) -> bytes:
            for place in (name.strip(), name.strip().lstrip("/"), Path(name).name):
                found = Path(self.parent, place)
                if found.exists() and not found.is_file():
                    raise ValueError(f"{name} is not a file")
            content: bytes = super().get(name)
            return content

    resolver = RegularFiles(str(path.absolute()))
    try:
        with path.open("rb") as file:
            kind = "glb" if file.read(4) == b"glTF" else "gltf"
            file.seek(0)
            scene = trimesh.load_scene(file, kind, resolver=resolver, process=False)
        parts = [m for m in scene.dump() if hasattr(m, "faces") and len(m.faces)]
    except Exception as error:  # trimesh passes on any error of its parsers
        raise PdflowError(f"{path} is not a readable glTF file ({reason(error)}).") from error
    if not parts:
        raise PdflowError(f"{path} holds no triangles: choose a file with a mesh.")
    starts = np.cumsum([0, *(len(m.vertices) for m in parts[:-1])])
    with name_file(path):
        return TriangleMesh(
            np.concatenate([m.vertices for m in parts]),
            np.concatenate([m.faces + start for m, start in zip(parts, starts, strict=True)]),
        )


def write_mesh(path: Path, mesh: TriangleMesh) -> None:
    """Write one file: text with embedded numbers for `.gltf`, or else binary."""
    trimesh = require("trimesh", extra="mesh", purpose="Writing glTF")
    with np.errstate(over="ignore"):
        if not np.isfinite(mesh.vertices.astype(np.float32)).all():
            raise PdflowError("A coordinate exceeds the float32 of glTF: write OFF, OBJ or PLY.")
    made = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    if path.suffix.lower() == ".gltf":
        files = trimesh.exchange.gltf.export_gltf(made.scene(), embed_buffers=True)
        (text,) = files.values()
        path.write_bytes(text)
    else:
        path.write_bytes(made.export(file_type="glb"))
    warn_of_losses("glTF", single_precision_losses(mesh.vertices))
