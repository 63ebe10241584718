"""The one table of file formats. A format's module is imported when it is first used.

A module of a point format offers either of

    read(path) -> PointCloud                      write(path, cloud) -> None
    open_reader(path) -> Reader                   open_writer(path, header) -> Writer

(the second pair when it can stream), and a mesh format

    read_mesh(path) -> TriangleMesh               write_mesh(path, mesh) -> None

They write to exactly the path they are given; `pdflow.io` makes that atomic.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from pdflow.errors import PdflowError


@dataclass(frozen=True)
class Format:
    """A file format: its name for `--format`, its suffixes, its module, what it can do."""

    name: str
    suffixes: tuple[str, ...]
    module: str
    points: bool = True
    mesh: bool = False

    def load(self) -> ModuleType:
        """Import the module that reads and writes this format."""
        return importlib.import_module(f"pdflow.io.{self.module}")


FORMATS: tuple[Format, ...] = (
    Format("ply", (".ply",), "ply", mesh=True),
    Format("xyz", (".xyz", ".xyzn", ".xyzrgb", ".txt", ".asc"), "text"),
    Format("csv", (".csv",), "text"),
    Format("pts", (".pts",), "text"),
    Format("pcd", (".pcd",), "pcd"),
    Format("las", (".las",), "las"),
    Format("laz", (".laz",), "las"),
    Format("e57", (".e57",), "e57"),
    Format("npy", (".npy",), "npy"),
    Format("npz", (".npz",), "npz"),
    Format("off", (".off",), "off", points=False, mesh=True),
    Format("obj", (".obj",), "obj", points=False, mesh=True),
    Format("stl", (".stl",), "stl", points=False, mesh=True),
    Format("glb", (".glb", ".gltf"), "gltf", points=False, mesh=True),
)


PACKED = {
    ".gz": b"\x1f\x8b",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ",
    ".zst": b"\x28\xb5\x2f\xfd",
    ".7z": b"7z\xbc\xaf",
    ".zip": b"PK\x03\x04",
}
"""Suffixes of packed files, which are refused, and how such files begin."""


def find_format(path: Path, name: str | None = None) -> Format:
    """The format called `name`, or else the one that the suffix of `path` belongs to.

    >>> find_format(Path("scan.LAZ")).name
    'laz'
    >>> find_format(Path("scan.data"), "xyz").name
    'xyz'
    """
    known = ", ".join(f.name for f in FORMATS)
    for fmt in FORMATS:
        if name is not None and name.lower() == fmt.name:
            return fmt
        if name is None and path.suffix.lower() in fmt.suffixes:
            return fmt
    if name is not None:
        raise PdflowError(f"Unknown format {name!r}: choose one of {known}.")
    if path.suffix.lower() in PACKED:
        raise PdflowError(f"{path} is packed: unpack it first.")
    why = f"by its suffix {path.suffix!r}" if path.suffix else "for it has no suffix"
    raise PdflowError(f"{path} names no known format, {why}: add --format with one of {known}.")
