"""NPY: one array, with or without named columns.

The reader takes (M, 3) arrays of any integer or float dtype; (M, C) arrays with C > 3, whose other
columns become the attributes `column_3`, `column_4`, ...; and structured arrays with fields x, y,
z, whose other fields become attributes (red, green, blue and nx, ny, nz become `colors` and
`normals`, as in any table).

The writer makes a plain (M, 3) float64 array if there are no attributes, or else a structured
array with one field per attribute. If an attribute is itself called x or red, the coordinates are
one field `points` instead; then every other field is an attribute as it stands.

NPY has no metadata. The hand-written reader checks sizes before it allocates and never unpickles.
"""

from __future__ import annotations

import ast
import math
import warnings
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.losses import warn_of_losses
from pdflow.io.stream import CHUNK
from pdflow.io.tabular.columns import COORDINATES, Dialect, plan_reading

MAGIC = b"\x93NUMPY"
POINTS = "points"
DIALECT = Dialect(dtypes=frozenset())

_MOST_COLUMNS = 64
"""Three rows with more columns than this are taken for x, y and z, not for three points."""


class PickledError(PdflowError):
    """An array holds Python objects, which could run any code when unpickled."""


def read(path: Path) -> PointCloud:
    """Read the cloud in an NPY file."""
    with path.open("rb") as file:
        array = read_array(file, path.stat().st_size, str(path))
    if not array.size:
        raise PdflowError(f"{path} holds no points: choose another file.")
    if array.dtype.names is not None:
        return _from_table(array.ravel(), path)
    if array.ndim != 2 or array.shape[1] < 3 or array.dtype.kind not in "iuf":
        raise PdflowError(
            f"{path} holds {describe(array)}, not points: save numbers of shape (M, 3) or a "
            "structured array with fields x, y, z."
        )
    if len(array) == 3 and array.shape[1] > _MOST_COLUMNS:
        raise PdflowError(
            f"{path} holds {describe(array)}, which looks like one column per point: save it "
            "transposed, with one row per point."
        )
    extra = {f"column_{i}": array[:, i].copy() for i in range(3, array.shape[1])}
    return PointCloud(array[:, :3], extra)


def write(path: Path, cloud: PointCloud) -> None:
    """Write points and attributes as one array."""
    losses = [f"metadata {key!r}" for key in cloud.metadata]
    held = {}
    for name, values in cloud.attributes.items():
        if values.dtype.hasobject:
            losses.append(f"attribute {name!r} (Python objects)")
        elif not values.dtype.itemsize:
            losses.append(f"attribute {name!r} (values of no bytes)")
        elif name in ("", POINTS) or not name.isprintable():
            losses.append(f"attribute {name!r} (not a valid field name)")
        else:
            held[name] = values
    warn_of_losses("NPY", losses)
    array = _to_table(cloud.points, held) if held else cloud.points
    with path.open("wb") as file:
        write_array(file, array)


def read_array(file: IO[bytes], size: int, place: str) -> NDArray[Any]:
    """Read the array in a stream of NPY format that is `size` bytes long.

    Errors begin with `place`. The size is checked before memory is allocated.
    """
    dtype, shape, is_fortran, start = _read_header(file, place)
    if dtype.hasobject:
        raise PickledError(f"{place} holds Python objects, which pdflow never reads: save numbers.")
    n_bytes = math.prod(shape) * dtype.itemsize
    if start + n_bytes != size:
        raise PdflowError(
            f"{place}: the header promises {n_bytes} bytes of values but {size - start} follow: "
            "it is truncated or damaged, fetch or save it again."
        )
    if not dtype.itemsize and math.prod(shape) > CHUNK:
        raise PdflowError(
            f"{place}: the header promises {math.prod(shape)} values of no bytes: it is damaged, "
            "fetch or save it again."
        )
    buffer = np.empty(n_bytes, np.uint8)
    filled = 0
    while filled < n_bytes:
        n_read = file.readinto(buffer.data[filled:])  # type: ignore[attr-defined]
        if not n_read:
            raise PdflowError(f"{place} ends after {filled} of {n_bytes} bytes: it is truncated.")
        filled += n_read
    array = buffer.view(dtype) if dtype.itemsize else np.zeros(math.prod(shape), dtype)
    try:
        return array.reshape(shape, order="F" if is_fortran else "C")
    except ValueError:  # too many dimensions, or too long ones beside a zero
        raise PdflowError(f"{place}: numpy has no arrays of its shape: save it again.") from None


def write_array(file: IO[bytes], array: NDArray[Any]) -> None:
    """Append an array in NPY format without pickling."""
    with warnings.catch_warnings():  # about the newer NPY version that some names need
        warnings.simplefilter("ignore", UserWarning)
        np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def describe(array: NDArray[Any]) -> str:
    """Shape and dtype in words, for errors.

    >>> describe(np.zeros((5, 2), np.float32))
    'a (5, 2) array of float32'
    """
    return f"a {array.shape} array of {array.dtype.name}"


def _read_header(file: IO[bytes], place: str) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Dtype, shape, whether in Fortran order, and where the values begin."""
    magic = file.read(8)
    if magic[:6] != MAGIC or len(magic) < 8:
        raise PdflowError(f"{place} is not in NPY format: its first bytes are wrong.")
    if magic[6] not in (1, 2, 3):
        raise PdflowError(f"{place} has version {magic[6]} of NPY: save it with versions 1 to 3.")
    n_digits = 2 if magic[6] == 1 else 4
    n_bytes = int.from_bytes(file.read(n_digits), "little")
    text = file.read(min(n_bytes, 2**20))
    try:
        entries = ast.literal_eval(text.decode("utf-8" if magic[6] == 3 else "latin-1"))
        dtype = np.lib.format.descr_to_dtype(entries["descr"])
        shape, is_fortran = entries["shape"], entries["fortran_order"]
        valid = len(text) == n_bytes and isinstance(is_fortran, bool) and isinstance(shape, tuple)
        # In Python a bool is an int, but here it is no length.
        if not valid or not all(type(n) is int and n >= 0 for n in shape) or dtype.subdtype:
            raise ValueError
    except Exception:  # the header is a Python literal, so any error may come up
        raise PdflowError(f"{place}: its NPY header is damaged: fetch or save it again.") from None
    return dtype, shape, is_fortran, 8 + n_digits + n_bytes


def _from_table(table: NDArray[Any], path: Path) -> PointCloud:
    """The cloud in a structured array."""
    names = table.dtype.names or ()
    if POINTS in names and table.dtype[POINTS].shape == (3,):
        if table[POINTS].dtype.kind not in "iuf":
            raise PdflowError(f"{path}: field {POINTS!r} does not hold numbers: save it as floats.")
        return PointCloud(
            table[POINTS], {name: _values(table, name) for name in names if name != POINTS}
        )
    by_name = {name.lower(): name for name in reversed(names)}
    missing = [c for c in COORDINATES if c not in by_name or not _is_number(table, by_name[c])]
    if missing:
        raise PdflowError(
            f"{path} has no numbers in a field {missing[0]!r}, only the fields "
            f"{', '.join(names)}: name the coordinates x, y, z."
        )
    xyz = [by_name[c] for c in COORDINATES]
    columns = {n: _values(table, n) for n in names if n not in xyz}
    return PointCloud(np.stack([table[c] for c in xyz], axis=1), _join(columns))


def _join(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Attributes from the fields of a table; only scalar fields of plain numbers are joined."""
    scalars = {n: v for n, v in columns.items() if v.ndim == 1 and v.dtype.kind in "biuf"}
    layout = plan_reading({n: v.dtype for n, v in scalars.items()}, DIALECT)
    joined = layout.join(scalars)
    owner = {part: name for name, parts in layout.parts.items() for part in parts}
    attributes: dict[str, NDArray[Any]] = {}
    for name, values in columns.items():
        attributes[owner.get(name, name)] = joined[owner[name]] if name in owner else values
    return attributes


def _to_table(points: NDArray[np.float64], held: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """A structured array that reads back with the same names, dtypes and widths."""
    columns = {n: v[:1] for n, v in held.items()}
    back = {} if {n.lower() for n in held} & set(COORDINATES) else _join(columns)
    as_it_was = [(n, v.shape) for n, v in back.items()] == [
        (n, v.shape) for n, v in columns.items()
    ]
    fields: list[Any] = [(n, v.dtype, v.shape[1:]) for n, v in held.items()]
    if as_it_was:
        table = np.empty(len(points), [(c, np.float64) for c in COORDINATES] + fields)
        for i, c in enumerate(COORDINATES):
            table[c] = points[:, i]
    else:
        table = np.empty(len(points), [(POINTS, np.float64, (3,)), *fields])
        table[POINTS] = points
    for name, values in held.items():
        table[name] = values
    return table


def _values(table: NDArray[Any], name: str) -> NDArray[Any]:
    """The field as (M,) or (M, W)."""
    values = np.ascontiguousarray(table[name])
    return values if values.ndim <= 2 else values.reshape(len(values), -1)


def _is_number(table: NDArray[Any], name: str) -> bool:
    return table[name].ndim == 1 and table[name].dtype.kind in "iuf"
