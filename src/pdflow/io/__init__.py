"""Read and write clouds and meshes of any format without losing anything.

`read` and `write` handle whole clouds, `open_reader` and `open_writer` handle chunks. The suffix
or `format` decides the format. Every write is atomic.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pdflow.cloud import PointCloud
from pdflow.errors import LossWarning, PdflowError
from pdflow.io.atomic import atomic_path
from pdflow.io.registry import (
    FORMATS,
    PACKED,
    Format,
    find_format,
    register_format,
    unregister_format,
)
from pdflow.io.stream import CHUNK, Field, Header, MemoryReader, Reader, Writer, fields_of
from pdflow.mesh import TriangleMesh

__all__ = [
    "CHUNK",
    "FORMATS",
    "Field",
    "Format",
    "Header",
    "Reader",
    "Writer",
    "atomic_path",
    "drop_nonfinite",
    "find_format",
    "open_reader",
    "open_writer",
    "read",
    "read_isolated",
    "read_mesh",
    "register_format",
    "require_finite",
    "unregister_format",
    "write",
    "write_mesh",
]

PathLike = str | os.PathLike[str]


def read(path: PathLike, format: str | None = None) -> PointCloud:
    """Read the whole cloud in a file. Coordinates may be NaN; see `require_finite`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = Path(folder, "cloud.csv")
    ...     _ = text.write_text("x,y,z,intensity\\n0,0,0,7\\n1,2,3,9\\n")
    ...     cloud = read(text)
    >>> cloud.points.tolist(), cloud.attributes["intensity"].tolist()
    ([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]], [7, 9])
    """
    with open_reader(path, format) as reader:
        return _all_points(reader, Path(path))


def read_isolated(path: PathLike, format: str | None = None) -> PointCloud:
    """Read a cloud in a process of its own, for files from strangers.

    A crash or a hang of native code becomes a `PdflowError`. With `PDFLOW_ISOLATE=1` in the
    environment, `read` does this for every format that native code decodes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/cloud.las", PointCloud(np.zeros((5, 3))))
    ...     len(read_isolated(f"{folder}/cloud.las"))
    5
    """
    fmt = _point_format(Path(path), format)
    _check_readable(Path(path))
    with _isolation().open_isolated(Path(path), fmt) as reader:
        return _all_points(reader, Path(path))


def write(path: PathLike, cloud: PointCloud, format: str | None = None) -> None:
    """Write a whole cloud, atomically. One LossWarning names what the format cannot hold.

    >>> import tempfile
    >>> cloud = PointCloud([[0, 0, 0], [1, 2, 3]], {"intensity": np.array([7, 9], np.uint16)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/cloud.ply", cloud)
    ...     back = read(f"{folder}/cloud.ply")
    >>> back.attributes["intensity"].tolist(), back.attributes["intensity"].dtype.name
    ([7, 9], 'uint16')
    """
    fmt = _point_format(Path(path), format)
    module = fmt.load()
    _warn_of_copc(Path(path))
    if not len(cloud):
        raise PdflowError(f"{path}: the cloud has no points, so nothing was written.")
    with atomic_path(Path(path), _suffix(Path(path), fmt)) as temporary:
        if hasattr(module, "write"):
            module.write(temporary, cloud)
        else:
            writer: Writer = module.open_writer(temporary, Header.of(cloud))
            writer.write_all([cloud])


def open_reader(path: PathLike, format: str | None = None) -> Reader:
    """Open a file: the header is read now, the points later in chunks.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/cloud.ply", PointCloud(np.zeros((5, 3))))
    ...     with open_reader(f"{folder}/cloud.ply") as reader:
    ...         reader.header.count, [len(chunk) for chunk in reader.chunks(2)]
    (5, [2, 2, 1])
    """
    path = Path(path)
    fmt = _point_format(path, format)
    _check_readable(path)
    reader: Reader
    module = _isolation() if fmt.isolated else fmt.load()
    if fmt.isolated:
        reader = module.open_isolated(path, fmt)
    elif hasattr(module, "open_reader"):
        reader = module.open_reader(path)
    else:
        reader = MemoryReader(module.read(path))
    return reader


@contextmanager
def open_writer(path: PathLike, header: Header, format: str | None = None) -> Iterator[Writer]:
    """Write a file in chunks, atomically: it appears once the block ends without an error.

    >>> import tempfile
    >>> chunk = PointCloud(np.zeros((2, 3)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_writer(f"{folder}/cloud.ply", Header(count=4)) as writer:
    ...         writer.write(chunk)
    ...         writer.write(chunk)
    ...     len(read(f"{folder}/cloud.ply"))
    4
    """
    fmt = _point_format(Path(path), format)
    module = fmt.load()
    _warn_of_copc(Path(path))
    with atomic_path(Path(path), _suffix(Path(path), fmt)) as temporary:
        if hasattr(module, "open_writer"):
            writer: Writer = module.open_writer(temporary, header)
        else:
            writer = _WholeWriter(module, temporary, header)
        writer = _CheckedWriter(writer, header, Path(path))
        try:
            yield writer
        except BaseException:
            writer.abort()
            raise
        writer.finish()


def read_mesh(path: PathLike, format: str | None = None) -> TriangleMesh:
    """Read the triangle mesh in a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = Path(folder, "triangle.off")
    ...     _ = text.write_text("OFF\\n3 1 0\\n0 0 0\\n1 0 0\\n0 1 0\\n3 0 1 2\\n")
    ...     read_mesh(text).faces.tolist()
    [[0, 1, 2]]
    """
    path = Path(path)
    fmt = _mesh_format(path, format)
    _check_readable(path)
    mesh: TriangleMesh = (
        _isolation().read_mesh_isolated(path, fmt) if fmt.isolated else fmt.load().read_mesh(path)
    )
    if not len(mesh.faces):
        raise PdflowError(f"{path} holds no faces: choose a file with a surface.")
    if not np.isfinite(mesh.vertices).all():
        row = int(np.flatnonzero(~np.isfinite(mesh.vertices).all(1))[0])
        raise PdflowError(f"{path}: vertex {row} is not finite: repair the mesh first.")
    return mesh


def write_mesh(path: PathLike, mesh: TriangleMesh, format: str | None = None) -> None:
    """Write a triangle mesh, atomically. One LossWarning names what the format cannot hold.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_mesh(f"{folder}/triangle.stl", TriangleMesh(np.eye(3), [[0, 1, 2]]))
    ...     read_mesh(f"{folder}/triangle.stl").vertices.shape
    (3, 3)
    """
    fmt = _mesh_format(Path(path), format)
    module = fmt.load()
    if not len(mesh.faces):
        raise PdflowError(f"{path}: the mesh has no faces, so nothing was written.")
    with atomic_path(Path(path), _suffix(Path(path), fmt)) as temporary:
        module.write_mesh(temporary, mesh)


def require_finite(cloud: PointCloud, path: PathLike) -> PointCloud:
    """Return the cloud; raise if a point is NaN or infinite, naming the first such row."""
    bad = np.flatnonzero(~np.isfinite(cloud.points).all(1))
    if len(bad):
        raise PdflowError(
            f"{path}: {len(bad)} of {len(cloud)} points are NaN or infinite, the first in row "
            f"{bad[0]}: drop them first, for example with `pdflow convert --drop-nonfinite`."
        )
    return cloud


def drop_nonfinite(cloud: PointCloud) -> tuple[PointCloud, int]:
    """The cloud without its NaN and infinite points, and their number."""
    good = np.isfinite(cloud.points).all(1)
    dropped = int((~good).sum())
    return (cloud[good] if dropped else cloud), dropped


class _CheckedWriter(Writer):
    """Refuses chunks that differ from the header, and a file without points."""

    def __init__(self, writer: Writer, header: Header, path: Path) -> None:
        self._writer, self._header, self._path = writer, header, path
        self._is_empty = True

    def write(self, chunk: PointCloud) -> None:
        if fields_of(chunk) != self._header.fields:
            raise PdflowError(
                f"{self._path}: a chunk has other attributes than the header: give every chunk "
                "the same ones."
            )
        if len(chunk):
            self._is_empty = False
            self._writer.write(chunk)

    def finish(self) -> None:
        if self._is_empty:
            self.abort()
            raise PdflowError(f"{self._path}: the cloud has no points, so nothing was written.")
        self._writer.finish()

    def abort(self) -> None:
        self._writer.abort()


class _WholeWriter(Writer):
    """Collects chunks for a format that only writes whole clouds."""

    def __init__(self, module: Any, path: Path, header: Header) -> None:
        self._module, self._path, self._header = module, path, header
        self._chunks: list[PointCloud] = []

    def write(self, chunk: PointCloud) -> None:
        self._chunks.append(chunk)

    def finish(self) -> None:
        cloud = PointCloud.concatenate(self._chunks)
        attributes = {name: cloud.attributes[name] for name in self._header.fields}
        self._module.write(self._path, PointCloud(cloud.points, attributes, self._header.metadata))


def _all_points(reader: Reader, path: Path) -> PointCloud:
    chunks = list(reader.chunks(CHUNK))
    if not chunks:
        raise PdflowError(f"{path} holds no points: choose another file.")
    return chunks[0] if len(chunks) == 1 else PointCloud.concatenate(chunks)


def _isolation() -> ModuleType:
    """The module, imported when it is needed: it is for those who ask."""
    return importlib.import_module("pdflow.io.isolation")


def _point_format(path: Path, name: str | None) -> Format:
    fmt = find_format(path, name)
    if not fmt.points:
        raise PdflowError(
            f"{path}: {fmt.name} holds meshes, not clouds: use `pdflow sample` on it."
        )
    return fmt


def _warn_of_copc(path: Path) -> None:
    if path.name.lower().endswith(".copc.laz"):
        message = f"{path} is written as plain LAZ, without the COPC index that its name promises."
        warnings.warn(message, LossWarning, stacklevel=3)


def _mesh_format(path: Path, name: str | None) -> Format:
    fmt = find_format(path, name)
    if not fmt.mesh:
        meshes = ", ".join(f.name for f in FORMATS if f.mesh)
        raise PdflowError(f"{path}: {fmt.name} holds no mesh: use one of {meshes}.")
    return fmt


def _suffix(path: Path, fmt: Format) -> str:
    """The path's own suffix, or the format's: a module may serve several formats by suffix."""
    return path.suffix if path.suffix.lower() in fmt.suffixes else fmt.suffixes[0]


def _check_readable(path: Path) -> None:
    try:
        if path.is_dir():
            raise PdflowError(f"{path} is a directory: name a file in it.")
        if not path.exists():
            raise PdflowError(f"{path} does not exist: check the name.")
        if not os.access(path, os.R_OK):
            raise PdflowError(f"{path} may not be read: change its permissions.")
        if not path.is_file():
            raise PdflowError(f"{path} is a device or a pipe: save its data to a file first.")
        if path.stat().st_size == 0:
            raise PdflowError(f"{path} is empty: fetch or export it again.")
        with path.open("rb") as file:
            start = file.read(8)
        # A zip archive may be NPZ, whatever its suffix.
        if any(start.startswith(mark) for suffix, mark in PACKED.items() if suffix != ".zip"):
            raise PdflowError(f"{path} is packed: unpack it first.")
    except OSError as error:
        raise PdflowError(f"{path} cannot be read ({error.strerror}).") from error
