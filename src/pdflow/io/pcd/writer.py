"""Write a PCD file of any kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.io.comments import encode_comments
from pdflow.io.losses import warn_of_losses
from pdflow.io.pcd.fields import (
    DIALECT,
    Block,
    pack_colors,
)
from pdflow.io.pcd.header import (
    FIXED_VIEWPOINT,
    KINDS,
    PcdField,
    PcdHeader,
    render_header,
)
from pdflow.io.pcd.lzf import compress
from pdflow.io.stream import Header
from pdflow.io.tabular.columns import COLORS, COORDINATES, Layout, plan_writing, with_note
from pdflow.io.tabular.rows import format_rows

LARGEST_COMPRESSED = 2**32 * 31 // 32
"""Bytes of points that binary_compressed can count even if they do not shrink."""


def write(path: Path, cloud: PointCloud) -> None:
    """Write a cloud as its metadata["pcd"] asks, by default as binary."""
    metadata = dict(cloud.metadata)
    own = metadata.pop("pcd", {})
    unclear = [] if isinstance(own, dict) else ["metadata 'pcd' (not a dict)"]
    own = {} if unclear else dict(own)
    data = own.pop("data") if own.get("data") in KINDS else "binary"
    packing = own.pop("rgb", None)
    width, height = own.pop("width", None), own.pop("height", None)
    is_shape = all(isinstance(n, int) and n > 0 for n in (width, height))
    if not is_shape or width * height != len(cloud):
        width, height = len(cloud), 1
    viewpoint = FIXED_VIEWPOINT
    if _is_viewpoint(own.get("viewpoint")):
        viewpoint = tuple(map(float, own.pop("viewpoint")))
    if own:
        metadata["pcd"] = own

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
    """The columns as fields: packed, with COUNT, or one by one."""
    blocks: list[Block] = []
    taken = DIALECT.reserved | set(columns)
    names = list(layout.parts)
    place = 0
    while place < len(names):
        parts = layout.parts[names[place]]
        values = np.stack([columns[part] for part in parts], axis=1)
        base = parts[0].removesuffix("_0")
        place += 1
        if names[place - 1] == "colors" and parts == COLORS and values.dtype == np.uint8:
            # Alpha can be packed only if it comes next; otherwise the order would change.
            alpha = None
            if names[place : place + 1] == ["alpha"] and layout.columns.get("alpha") == np.uint8:
                alpha, place = columns["alpha"], place + 1
            blocks.append(pack_colors(values, alpha, packing, data))
        elif len(parts) > 1 and parts[1] == f"{base}_1" and _is_free(base, taken):
            blocks.append((PcdField(base, values.dtype, len(parts)), values))
        else:
            blocks += [
                (PcdField(part, columns[part].dtype), columns[part][:, None]) for part in parts
            ]
    return blocks


def _is_free(name: str, taken: set[str] | frozenset[str]) -> bool:
    return name not in taken and DIALECT.is_legal(name)


def _is_viewpoint(value: object) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == len(FIXED_VIEWPOINT)
        and all(isinstance(number, (int, float)) for number in value)
    )
