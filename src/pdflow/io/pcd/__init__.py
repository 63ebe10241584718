"""PCD, versions .5 to .7: ascii, binary and binary_compressed.

Fields with COUNT W are (M, W) attributes, normal_x, normal_y, normal_z are `normals`, and the
packed fields rgb and rgba are `colors` (uint8), with `alpha` where there is any. Padding fields
(`_`) are skipped. What the header says beyond the fields is `metadata["pcd"]` and is written
back:

    data              ascii, binary (the default) or binary_compressed
    width, height     of an organised cloud, as long as they give the number of points
    viewpoint         seven numbers: translation and quaternion (w, x, y, z)
    rgb               name and TYPE of the field with packed colours, where there is one

Other metadata are comment lines.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.comments import decode_comments, encode_comments
from pdflow.io.exact import cast_exactly
from pdflow.io.pcd.header import (
    DTYPES,
    FIXED_VIEWPOINT,
    KINDS,
    PADDING,
    PcdField,
    PcdHeader,
    read_header,
    render_header,
)
from pdflow.io.pcd.lzf import compress, decompress
from pdflow.io.stream import Header
from pdflow.io.tabular.columns import (
    Dialect,
    Layout,
    distinct_names,
    plan_reading,
    plan_writing,
    take_note,
    warn_of_losses,
    with_note,
)
from pdflow.io.tabular.rows import format_rows, parse_rows

COORDINATES = ("x", "y", "z")
PACKED = ("rgb", "rgba")
CHANNELS = ("red", "green", "blue")
DIALECT = Dialect(
    dtypes=frozenset(DTYPES.values()),
    triples={"colors": CHANNELS, "normals": ("normal_x", "normal_y", "normal_z")},
    reserved=frozenset({*COORDINATES, *PACKED, PADDING}),
)
LARGEST_COMPRESSED = 2**32 * 31 // 32
"""Bytes of points that binary_compressed can count even if they do not get smaller."""
PAGE = 4096
"""Bytes that PCL's tools reserve for a header."""

Block = tuple[PcdField, NDArray[Any]]
"""A field and its values (M, W)."""


def read(path: Path) -> PointCloud:
    """The cloud in a PCD file; points that the sensor did not see are NaN."""
    with path.open("rb") as file:
        header = read_header(file, path)
        if not header.count:
            raise PdflowError(f"{path} holds no points: nothing can be done with it.")
        blocks = _read_blocks(file, header, path)
    says: dict[str, Any] = {
        "data": header.data,
        "width": header.width,
        "height": header.height,
        "viewpoint": list(header.viewpoint),
    }
    columns: list[tuple[str, NDArray[Any]]] = []
    for field, values in blocks:
        if _is_packed(field):
            bits, code = _as_bits(values)
            columns += _unpack(bits, with_alpha=field.name == "rgba" or bool((bits >> 24).any()))
            says.setdefault("rgb", [field.name, code])
        elif field.count > 1:
            columns += [(f"{field.name}_{i}", values[:, i]) for i in range(field.count)]
        else:
            columns.append((field.name, values[:, 0]))
    table = dict(zip(distinct_names(n for n, _ in columns), (v for _, v in columns), strict=True))

    missing = [name for name in COORDINATES if name not in table]
    if missing:
        raise PdflowError(
            f"{path} has no field {missing[0]}, only {', '.join(table)}: it holds no points."
        )
    points = np.stack([table.pop(name) for name in COORDINATES], axis=1)
    metadata, note = take_note(decode_comments(header.comments))
    more = metadata.get("pcd")
    metadata["pcd"] = {**(more if isinstance(more, dict) else {}), **says}
    layout = plan_reading({name: v.dtype for name, v in table.items()}, DIALECT, note)
    try:
        attributes = layout.join(table)
    except PdflowError as error:
        raise PdflowError(f"{path}: {error}") from error
    return PointCloud(points, attributes, metadata)


def write(path: Path, cloud: PointCloud) -> None:
    """Write a cloud the way its metadata["pcd"] says, or else as binary."""
    metadata = dict(cloud.metadata)
    says = metadata.pop("pcd", {})
    unclear = [] if isinstance(says, dict) else ["metadata 'pcd' (which must be a dict)"]
    says = {} if unclear else dict(says)
    data = says.pop("data") if says.get("data") in KINDS else "binary"
    packing = says.pop("rgb", None)
    width, height = says.pop("width", None), says.pop("height", None)
    is_shape = all(isinstance(n, int) and n > 0 for n in (width, height))
    if not is_shape or width * height != len(cloud):
        width, height = len(cloud), 1
    viewpoint = FIXED_VIEWPOINT
    if _is_viewpoint(says.get("viewpoint")):
        viewpoint = tuple(map(float, says.pop("viewpoint")))
    if says:
        metadata["pcd"] = says

    head = Header.of(cloud)
    layout = plan_writing(head.fields, DIALECT, cloud.attributes)
    comments, losses = encode_comments(with_note(metadata, layout))
    warn_of_losses("PCD", layout.losses + losses + unclear)

    blocks: list[Block] = [
        (PcdField(name, head.point_dtype), cloud.points[:, i : i + 1].astype(head.point_dtype))
        for i, name in enumerate(COORDINATES)
    ]
    blocks += _to_blocks(layout, layout.split(cloud.attributes), packing, data)
    header = PcdHeader(
        tuple(field for field, _ in blocks), width, height, data, viewpoint, tuple(comments)
    )
    if data == "binary_compressed" and header.count * header.point_bytes > LARGEST_COMPRESSED:
        header = replace(header, data="binary")
    with path.open("wb") as file:
        file.write(render_header(header))
        _write_blocks(file, header, blocks)


def _read_blocks(file: IO[bytes], header: PcdHeader, path: Path) -> list[Block]:
    """All fields but padding with their values; refused where the file has other than it says."""
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
        try:
            unpacked = np.frombuffer(decompress(file.read(n_packed), n_bytes), np.uint8)
        except PdflowError as error:
            raise PdflowError(f"{path}: {error}") from error
        blocks, end = [], 0
        for field in header.fields:  # column after column
            start, end = end, end + field.n_bytes * header.count
            if field.name != PADDING:
                blocks.append((field, _from_bytes(unpacked[start:end], field)))
    return blocks


def _has_its_size(file: IO[bytes], n_needed: int, header: PcdHeader, path: Path) -> bool:
    """Whether the points end the file, or zeros that PCL's tools leave behind them.

    These reserve a page for the header and write the data right behind it: what the header did
    not need of the page is left over at the end.
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
    if header.count * n_values > n_left:  # a value takes two bytes, the last perhaps one
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
        try:
            # Packed colours keep all digits: some write the integer where a float belongs.
            dtype = values.dtype if _is_packed(field) and field.dtype.kind == "f" else field.dtype
            blocks.append((field, cast_exactly(values, dtype, f"field {field.name}")))
        except PdflowError as error:
            raise PdflowError(f"{path}: {error}") from error
    return blocks


def _write_blocks(file: IO[bytes], header: PcdHeader, blocks: list[Block]) -> None:
    if header.data == "ascii":
        file.write(format_rows([column for _, values in blocks for column in values.T]).encode())
    elif header.data == "binary":
        rows = [np.ascontiguousarray(values).view(np.uint8) for _, values in blocks]
        file.write(np.concatenate(rows, axis=1).data)
    else:
        columns = b"".join(values.tobytes() for _, values in blocks)
        packed = compress(columns)
        file.write(len(packed).to_bytes(4, "little") + len(columns).to_bytes(4, "little"))
        file.write(packed)


def _to_blocks(
    layout: Layout, columns: dict[str, NDArray[Any]], packing: object, data: str
) -> list[Block]:
    """The columns of the attributes as fields: packed, with COUNT, or one by one."""
    blocks: list[Block] = []
    taken = DIALECT.reserved | set(columns)
    names = list(layout.parts)
    place = 0
    while place < len(names):
        parts = layout.parts[names[place]]
        values = np.stack([columns[part] for part in parts], axis=1)
        base = parts[0].removesuffix("_0")
        place += 1
        if names[place - 1] == "colors" and parts == CHANNELS and values.dtype == np.uint8:
            # Only where alpha comes next can it be packed without changing the order.
            alpha = None
            if names[place : place + 1] == ["alpha"] and layout.columns.get("alpha") == np.uint8:
                alpha, place = columns["alpha"], place + 1
            blocks.append(_pack(values, alpha, packing, data))
        elif len(parts) > 1 and parts[1] == f"{base}_1" and _is_free(base, taken):
            blocks.append((PcdField(base, values.dtype, len(parts)), values))
        else:
            blocks += [
                (PcdField(part, columns[part].dtype), columns[part][:, None]) for part in parts
            ]
    return blocks


def _is_free(name: str, taken: set[str] | frozenset[str]) -> bool:
    return name not in taken and DIALECT.is_legal(name)


def _is_packed(field: PcdField) -> bool:
    return field.name in PACKED and field.count == 1 and field.dtype.itemsize == 4


def _as_bits(values: NDArray[Any]) -> tuple[NDArray[np.uint32], str]:
    """Packed colours (M, 1) as (M,) uint32, and the TYPE they are stored in.

    A float is a colour by its bits. In text, where it is float64 still, the integer itself may
    stand in its place; it is told by its size, as bits of a colour without alpha make a float
    far below 1.
    """
    code = {"f": "F", "u": "U", "i": "I"}[values.dtype.kind]
    if values.dtype == np.float64:
        whole = (values >= 1) & (values < 2**32) & (values == np.floor(values))
        if whole.any() and (whole | (values == 0)).all():
            return values[:, 0].astype(np.uint32), "U"
        values = cast_exactly(values, np.dtype(np.float32), "packed colours")
    return np.ascontiguousarray(values[:, 0]).view(np.uint32), code


def _unpack(bits: NDArray[np.uint32], with_alpha: bool) -> list[tuple[str, NDArray[np.uint8]]]:
    shifts = dict(zip(CHANNELS, (16, 8, 0), strict=True)) | ({"alpha": 24} if with_alpha else {})
    return [(name, (bits >> shift).astype(np.uint8)) for name, shift in shifts.items()]


def _pack(
    colors: NDArray[np.uint8], alpha: NDArray[np.uint8] | None, packing: object, data: str
) -> Block:
    """Colours (M, 3) as one field, packed as they were in the file they are from."""
    was = list(map(str, packing)) if isinstance(packing, list) and len(packing) == 2 else ["", ""]
    red, green, blue = colors.astype(np.uint32).T
    bits = red << 16 | green << 8 | blue
    if alpha is not None:
        bits |= alpha.astype(np.uint32) << 24
    # The first byte of a field rgb is alpha to the reader only where it is not zero.
    name = "rgb" if alpha is None or (was[0] == "rgb" and alpha.any()) else "rgba"
    code = was[1] if (was[1], 4) in DTYPES else "F" if name == "rgb" else "U"
    if data == "ascii" and alpha is not None and code == "F":
        code = "U"  # as floats many colours with alpha are NaN, which text does not tell apart
    field = PcdField(name, DTYPES[code, 4])
    return field, bits.view(field.dtype)[:, None]


def _from_bytes(values: NDArray[np.uint8], field: PcdField) -> NDArray[Any]:
    return np.ascontiguousarray(values).view(field.dtype).reshape(-1, field.count)


def _is_viewpoint(value: object) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == len(FIXED_VIEWPOINT)
        and all(isinstance(number, (int, float)) for number in value)
    )


def _wrong_size(path: Path, header: PcdHeader, promised: str, found: str) -> PdflowError:
    return PdflowError(
        f"{path}: the header promises {header.count} points ({promised}) but the file holds "
        f"{found}: it is truncated or its header is wrong, fetch or export it again."
    )
