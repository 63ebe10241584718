"""The one table of file formats. A format's module is imported when it is first used.

The module of a point format offers one of these pairs, the second if it can stream:

    read(path) -> PointCloud                      write(path, cloud) -> None
    open_reader(path) -> Reader                   open_writer(path, header) -> Writer

The module of a mesh format offers

    read_mesh(path) -> TriangleMesh               write_mesh(path, mesh) -> None

Both write to exactly the path they get; `pdflow.io` makes that atomic. They raise `PdflowError`
for a file they cannot read, and name everything they cannot write in one `LossWarning`.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from pdflow.errors import PdflowError


@dataclass(frozen=True)
class Format:
    """A file format.

    name      for `--format` and `format=`, in lower case
    suffixes  in lower case with their dot; the first one names new files
    module    full name of the module that reads and writes the format
    points    whether it holds clouds
    mesh      whether it holds meshes
    native    whether native code of others decodes it, which `PDFLOW_ISOLATE=1` keeps apart
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    points: bool = True
    mesh: bool = False
    native: bool = False

    def __post_init__(self) -> None:
        lower = all(word == word.lower() for word in (self.name, *self.suffixes))
        if not (lower and self.suffixes and all(s.startswith(".") for s in self.suffixes)):
            raise PdflowError(
                f"Format {self.name!r} cannot be used: give its name and at least one suffix in "
                "lower case, each suffix with its dot."
            )

    @property
    def isolated(self) -> bool:
        """Whether its files are to be decoded in a process of their own."""
        return self.native and os.environ.get(ISOLATE, "") not in ("", "0")

    def load(self) -> ModuleType:
        """Import the module that reads and writes this format."""
        return importlib.import_module(self.module)


ISOLATE = "PDFLOW_ISOLATE"
"""The environment variable that keeps native decoders apart; empty or 0 means no."""

PACKED = {
    ".gz": b"\x1f\x8b",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ",
    ".zst": b"\x28\xb5\x2f\xfd",
    ".7z": b"7z\xbc\xaf",
    ".zip": b"PK\x03\x04",
}
"""Suffix of a packed file -> its first bytes. Packed files are refused."""

FORMATS: list[Format] = []
"""All formats; change it with `register_format` and `unregister_format` only."""


def register_format(fmt: Format) -> None:
    """Add a format, so that `read`, `write` and every command know it.

    >>> register_format(Format("toy", (".toy",), module="my_package.toy"))
    >>> find_format(Path("scan.toy")).module
    'my_package.toy'
    >>> unregister_format("toy")
    """
    for known in FORMATS:
        taken = {known.name} & {fmt.name} or {*known.suffixes} & {*fmt.suffixes}
        if taken:
            raise PdflowError(
                f"Format {fmt.name!r} cannot be registered: {min(taken)!r} belongs to "
                f"{known.name!r}; choose another, or call unregister_format({known.name!r}) first."
            )
    FORMATS.append(fmt)


def unregister_format(name: str) -> None:
    """Remove the format called `name`."""
    FORMATS.remove(find_format(Path(), name))


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
    why = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
    raise PdflowError(
        f"{path} has {why}, so its format is unknown: add --format with one of {known}."
    )


for _format in (
    Format("ply", (".ply",), "pdflow.io.ply", mesh=True),
    Format("xyz", (".xyz", ".xyzn", ".xyzrgb", ".txt", ".asc"), "pdflow.io.text"),
    Format("csv", (".csv",), "pdflow.io.text"),
    Format("pts", (".pts",), "pdflow.io.text"),
    Format("pcd", (".pcd",), "pdflow.io.pcd"),
    Format("las", (".las",), "pdflow.io.las", native=True),
    Format("laz", (".laz",), "pdflow.io.las", native=True),
    Format("e57", (".e57",), "pdflow.io.e57", native=True),
    Format("npy", (".npy",), "pdflow.io.npy"),
    Format("npz", (".npz",), "pdflow.io.npz"),
    Format("off", (".off",), "pdflow.io.off", points=False, mesh=True),
    Format("obj", (".obj",), "pdflow.io.obj", points=False, mesh=True),
    Format("stl", (".stl",), "pdflow.io.stl", points=False, mesh=True),
    Format("glb", (".glb", ".gltf"), "pdflow.io.gltf", points=False, mesh=True, native=True),
):
    register_format(_format)
