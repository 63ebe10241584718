"""Read a PCD file of any version and kind."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.comments import decode_comments
from pdflow.io.damage import name_file
from pdflow.io.exact import cast_exactly
from pdflow.io.pcd.fields import (
    DIALECT,
    Block,
    is_packed,
    packed_bits,
    unpack_colors,
)
from pdflow.io.pcd.header import (
    PADDING,
    PcdField,
    PcdHeader,
    read_header,
)
from pdflow.io.pcd.lzf import decompress
from pdflow.io.tabular.columns import (
    COORDINATES,
    distinct_names,
    plan_reading,
    take_note,
)
from pdflow.io.tabular.rows import parse_rows

PAGE = 4096
"""Bytes that PCL's tools reserve for a header."""


def read(path: Path) -> PointCloud:
    """Read the cloud in a PCD file; points that the sensor missed are NaN."""
    with path.open("rb") as file:
        header = read_header(file, path)
        if not header.count:
            raise PdflowError(f"{path} holds no points: choose another file.")
        blocks = _read_blocks(file, header, path)
    own: dict[str, Any] = {
        "data": header.data,
        "width": header.width,
        "height": header.height,
        "viewpoint": list(header.viewpoint),
    }
    columns: list[tuple[str, NDArray[Any]]] = []
    for field, values in blocks:
        if is_packed(field):
            bits, code = packed_bits(values)
            columns += unpack_colors(
                bits, with_alpha=field.name == "rgba" or bool((bits >> 24).any())
            )
            own.setdefault("rgb", [field.name, code])
        elif field.count > 1:
            columns += [(f"{field.name}_{i}", values[:, i]) for i in range(field.count)]
        else:
            columns.append((field.name, values[:, 0]))
    table = dict(zip(distinct_names(n for n, _ in columns), (v for _, v in columns), strict=True))

    missing = [name for name in COORDINATES if name not in table]
    if missing:
        raise PdflowError(
            f"{path} has no field {missing[0]}, only {', '.join(table)}: a cloud needs x, y and z."
        )
    points = np.stack([table.pop(name) for name in COORDINATES], axis=1)
    metadata, note = take_note(decode_comments(header.comments))
    more = metadata.get("pcd")
    metadata["pcd"] = {**(more if isinstance(more, dict) else {}), **own}
    layout = plan_reading({name: v.dtype for name, v in table.items()}, DIALECT, note)
    with name_file(path):
        attributes = layout.join(table)
    return PointCloud(points, attributes, metadata)


def _read_blocks(file: IO[bytes], header: PcdHeader, path: Path) -> list[Block]:
    """All fields except padding with their values; refused if the file has another size."""
    n_left = path.stat().st_size - file.tell()
    n_needed = header.count * header.point_bytes
    if header.data == "ascii":
        blocks = _read_text(file, n_left, header, path)
    elif header.data == "binary":
        if not _has_its_size(file, n_needed, header, path):
            raise _wrong_size(path, header, f"{n_needed} bytes", f"{n_left} bytes")
        rows = np.fromfile(file, np.uint8, n_needed).reshape(header.count, -1)
        ends = np.cumsum([field.n_bytes for field in header.fields])
        blocks = [
            (field, _from_bytes(rows[:, end - field.n_bytes : end], field))
            for field, end in zip(header.fields, ends, strict=True)
            if field.name != PADDING
        ]
    else:
        sizes = file.read(8)
        n_packed, n_bytes = (int.from_bytes(part, "little") for part in (sizes[:4], sizes[4:]))
        if n_packed > n_left - 8 or n_bytes != n_needed:
            raise _wrong_size(path, header, f"{n_needed} bytes", f"{n_bytes} bytes")
        with name_file(path):
            unpacked = np.frombuffer(decompress(file.read(n_packed), n_bytes), np.uint8)
        blocks, end = [], 0
        for field in header.fields:  # column after column
            start, end = end, end + field.n_bytes * header.count
            if field.name != PADDING:
                blocks.append((field, _from_bytes(unpacked[start:end], field)))
    return blocks


def _has_its_size(file: IO[bytes], n_needed: int, header: PcdHeader, path: Path) -> bool:
    """Whether the file ends after the points, or after zeros that PCL's tools append.

    These tools reserve one page for the header but write the data directly behind it, so the
    unused rest of the page remains at the end.
    """
    size, here = path.stat().st_size, file.tell()
    n_over = size - here - n_needed
    if n_over < header.point_bytes:
        return n_over >= 0
    if size - n_needed != PAGE:
        return False
    file.seek(n_needed, 1)
    rest = file.read()
    file.seek(here)
    return not any(rest)


def _read_text(file: IO[bytes], n_left: int, header: PcdHeader, path: Path) -> list[Block]:
    n_values = sum(field.count for field in header.fields)
    if header.count * n_values > n_left:  # a value takes two bytes, the last one perhaps one
        raise _wrong_size(path, header, f"{header.count * n_values} values", f"{n_left} bytes")
    lines = [line.decode("latin-1") for line in file.read().splitlines()]
    widest = {"i": np.dtype(np.int64), "u": np.dtype(np.uint64), "f": np.dtype(np.float64)}
    dtypes = [widest[field.dtype.kind] for field in header.fields for _ in range(field.count)]
    columns = parse_rows(lines, dtypes, path, header.n_lines + 1)
    if len(columns[0]) != header.count:
        raise _wrong_size(path, header, f"{header.count} rows", str(len(columns[0])))
    blocks, end = [], 0
    for field in header.fields:
        start, end = end, end + field.count
        if field.name == PADDING:
            continue
        values = np.stack(columns[start:end], axis=1)
        # Packed colours keep all digits: some files hold the integer instead of the float.
        dtype = values.dtype if is_packed(field) and field.dtype.kind == "f" else field.dtype
        with name_file(path):
            blocks.append((field, cast_exactly(values, dtype, f"field {field.name}")))
    return blocks


def _from_bytes(values: NDArray[np.uint8], field: PcdField) -> NDArray[Any]:
    return np.ascontiguousarray(values).view(field.dtype).reshape(-1, field.count)


def _wrong_size(path: Path, header: PcdHeader, promised: str, found: str) -> PdflowError:
    return PdflowError(
        f"{path}: the header promises {header.count} points ({promised}), but the file holds "
        f"{found}: it is truncated or its header is wrong, fetch or export it again."
    )
