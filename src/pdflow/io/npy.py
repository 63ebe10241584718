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
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.losses import warn_of_losses
from pdflow.io.stream import CHUNK, Header, Reader, Writer, fields_of
from pdflow.io.tabular.columns import COORDINATES, Dialect, plan_reading

MAGIC = b"\x93NUMPY"
POINTS = "points"
DIALECT = Dialect(dtypes=frozenset())

_MOST_COLUMNS = 64
"""Three rows with more columns than this are taken for x, y and z, not for three points."""


class PickledError(PdflowError):
    """An array holds Python objects, which could run any code when unpickled."""


def open_reader(path: Path) -> Reader:
    """Open an NPY file; one in Fortran order, column after column, is read at once."""
    return NpyReader(path)


def open_writer(path: Path, header: Header) -> Writer:
    """Write points and attributes as one array, in chunks."""
    return NpyWriter(path, header)


class NpyReader(Reader):
    """An array whose rows are read in chunks."""

    def __init__(self, path: Path) -> None:
        self._path, self._whole = path, None
        with path.open("rb") as file:
            self._dtype, shape, is_fortran, self._start = _checked_header(
                file, path.stat().st_size, str(path)
            )
        if not math.prod(shape):
            raise PdflowError(f"{path} holds no points: choose another file.")
        table = self._dtype.names is not None
        what = f"{path} holds {describe(self._dtype, shape)}"
        if not table and (len(shape) != 2 or shape[1] < 3 or self._dtype.kind not in "iuf"):
            raise PdflowError(
                f"{what}, not points: save numbers of shape (M, 3) or a structured array with "
                "fields x, y, z."
            )
        if not table and shape[0] == 3 and shape[1] > _MOST_COLUMNS:
            raise PdflowError(
                f"{what}, which looks like one column per point: save it transposed, with one row "
                "per point."
            )
        count = math.prod(shape) if table else shape[0]
        self._row = () if table else shape[1:]
        if is_fortran and len(shape) > 1:
            with path.open("rb") as file:
                whole = read_array(file, path.stat().st_size, str(path))
            self._whole = whole.reshape(count, *self._row)
        first = _cloud(np.zeros((0, *self._row), self._dtype), path)
        coordinates = _coordinate_type(self._dtype)
        single = np.can_cast(coordinates, np.float32, "safe")
        dtype = np.dtype(np.float32 if single else np.float64)
        self.header = Header(count, fields_of(first), {}, dtype)

    def chunks(self, size: int = CHUNK) -> Iterator[PointCloud]:
        """Clouds of at most `size` points, in file order."""
        total = self.header.count or 0
        with self._path.open("rb") as file:
            file.seek(self._start)
            for start in range(0, total, size):
                count = min(size, total - start)
                if self._whole is not None:
                    rows = self._whole[start : start + count]
                else:
                    number = count * math.prod(self._row)
                    values = _read_values(file, number, self._dtype, str(self._path))
                    rows = values.reshape(count, *self._row)
                yield _cloud(rows, self._path)


class NpyWriter(Writer):
    """An array that grows chunk by chunk; its header gets the number of rows at the end."""

    def __init__(self, path: Path, header: Header) -> None:
        self._file = path.open("wb")
        self._losses = [f"metadata {key!r}" for key in header.metadata]
        self._rows, self._header = 0, b""

    def write(self, chunk: PointCloud) -> None:
        """Append points."""
        held, lost = _held(chunk.attributes)
        array = _to_table(chunk.points, held) if held else chunk.points
        if not self._header:
            self._losses += lost
            empty = BytesIO()
            write_array(empty, array[:0])
            self._header = empty.getvalue()
            self._file.write(self._header)
        self._file.write(array.view(np.uint8).data)
        self._rows += len(array)

    def finish(self) -> None:
        """Write the number of rows, and warn of what was left out."""
        with self._file:
            # The last entry is the shape; numpy leaves room for any number behind it.
            before, entry, after = self._header.rpartition(b"(0,")
            number = b"(%d," % self._rows
            spare = len(number) - len(entry)
            after = after[: len(after) - 1 - spare] + b"\n" if spare else after
            self._file.seek(0)
            self._file.write(before + number + after)
        warn_of_losses("NPY", self._losses)

    def abort(self) -> None:
        """Close the file without completing it."""
        self._file.close()


def _held(attributes: dict[str, NDArray[Any]]) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """The attributes that an array can hold, and those that it cannot."""
    held, losses = {}, []
    for name, values in attributes.items():
        if values.dtype.hasobject:
            losses.append(f"attribute {name!r} (Python objects)")
        elif not values.dtype.itemsize:
            losses.append(f"attribute {name!r} (values of no bytes)")
        elif name in ("", POINTS) or not name.isprintable():
            losses.append(f"attribute {name!r} (not a valid field name)")
        else:
            held[name] = values
    return held, losses


def read_array(file: IO[bytes], size: int, place: str) -> NDArray[Any]:
    """Read the array in a stream of NPY format that is `size` bytes long.

    Errors begin with `place`. The size is checked before memory is allocated.
    """
    dtype, shape, is_fortran, _ = _checked_header(file, size, place)
    array = _read_values(file, math.prod(shape), dtype, place)
    return array.reshape(shape, order="F" if is_fortran else "C")


def write_array(file: IO[bytes], array: NDArray[Any]) -> None:
    """Append an array in NPY format without pickling."""
    with warnings.catch_warnings():  # about the newer NPY version that some names need
        warnings.simplefilter("ignore", UserWarning)
        np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def describe(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    """An array in words, for errors.

    >>> describe(np.dtype(np.float32), (5, 2))
    'a (5, 2) array of float32'
    """
    return f"a {shape} array of {dtype.name}"


def _checked_header(
    file: IO[bytes], size: int, place: str
) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """What `_read_header` finds, if the stream has the bytes that it promises and no objects."""
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
    try:  # it may have too many dimensions, or too long ones beside a zero
        np.zeros(number := min(1, math.prod(shape))).reshape([1] * len(shape) if number else shape)
    except ValueError:
        raise PdflowError(f"{place}: numpy has no arrays of its shape: save it again.") from None
    return dtype, shape, is_fortran, start


def _read_values(file: IO[bytes], number: int, dtype: np.dtype[Any], place: str) -> NDArray[Any]:
    """The next values (number,) of a stream."""
    n_bytes = number * dtype.itemsize
    buffer = np.empty(n_bytes, np.uint8)
    filled = 0
    while filled < n_bytes:
        n_read = file.readinto(buffer.data[filled:])  # type: ignore[attr-defined]
        if not n_read:
            raise PdflowError(f"{place} ends after {filled} of {n_bytes} bytes: it is truncated.")
        filled += n_read
    return buffer.view(dtype) if dtype.itemsize else np.zeros(number, dtype)


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


def _cloud(rows: NDArray[Any], path: Path) -> PointCloud:
    """The cloud in numbers (m, C), or in a structured array (m,)."""
    if rows.dtype.names is not None:
        return _from_table(rows, path)
    extra = {f"column_{i}": rows[:, i].copy() for i in range(3, rows.shape[1])}
    return PointCloud(rows[:, :3], extra)


def _coordinate_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that holds all coordinates of a valid array."""
    names = dtype.names
    if names is None:
        return dtype
    if POINTS in names and dtype[POINTS].shape == (3,):
        return dtype[POINTS].base
    return np.result_type(*(dtype[n] for n in names if n.lower() in COORDINATES))


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
