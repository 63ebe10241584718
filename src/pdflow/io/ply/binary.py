"""The rows of a PLY element in binary, with lists of any length, as arrays and back.

A table maps a property to an array (one value per row), and a list property to
`{"counts": (rows,), "values": (sum of counts,)}`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.io.ply.header import ByteOrder, Element

Table = dict[str, Any]


def decode_binary(
    data: bytes, start: int, element: Element, order: ByteOrder, path: Path
) -> tuple[Table, int]:
    """The table whose rows begin at byte `start` of `data`, and the byte after its end."""
    if start + element.count * element.row_bytes > len(data):
        raise cut_short(element, path)
    if not element.properties:
        return {}, start
    if not element.has_lists:
        rows = np.frombuffer(data, element.row_dtype(order), element.count, start)
        table = {p.name: rows[p.name].astype(p.dtype) for p in element.properties}
        return table, start + rows.nbytes
    equal = _decode_equal_rows(data, start, element, order, path)
    return equal or _decode_ragged_rows(data, start, element, order, path)


def encode_binary(
    element: Element, table: Mapping[str, Any], order: ByteOrder
) -> NDArray[np.uint8]:
    """The rows of a table as bytes."""
    if not element.count or not element.properties:
        return np.empty(0, np.uint8)
    lengths = [equal_length(table[p.name]) for p in element.properties if p.is_list]
    if any(length is None for length in lengths):
        return _encode_ragged_rows(element, table, order)
    rows = np.empty(element.count, _equal_row_dtype(element, [n or 0 for n in lengths], order))
    for i, p in enumerate(element.properties):
        if p.is_list:
            rows[f"n{i}"] = table[p.name]["counts"]
            rows[f"p{i}"] = table[p.name]["values"].reshape(element.count, -1)
        else:
            rows[f"p{i}"] = table[p.name]
    return rows.view(np.uint8)


def _decode_equal_rows(
    data: bytes, start: int, element: Element, order: ByteOrder, path: Path
) -> tuple[Table, int] | None:
    """The table if all rows have lists of the same lengths as the first row, or None."""
    if not element.count:
        return None
    _, counts = _walk(data, start, element, order, path, rows=1)
    lengths = [int(length[0]) for length in counts]
    sizes = [p.dtype.itemsize for p in element.properties if p.is_list]
    row_bytes = element.row_bytes + sum(
        length * size for length, size in zip(lengths, sizes, strict=True)
    )
    if start + element.count * row_bytes > len(data) or row_bytes > np.iinfo(np.int32).max:
        return None
    rows = np.frombuffer(data, _equal_row_dtype(element, lengths, order), element.count, start)
    table: Table = {}
    expected = iter(lengths)
    for i, p in enumerate(element.properties):
        values = rows[f"p{i}"].astype(p.dtype)
        table[p.name] = values
        if p.count_dtype is not None:
            if (rows[f"n{i}"] != next(expected)).any():
                return None
            counts_here = rows[f"n{i}"].astype(p.count_dtype)
            table[p.name] = {"counts": counts_here, "values": values.reshape(-1)}
    return table, start + rows.nbytes


def _equal_row_dtype(element: Element, lengths: Sequence[int], order: ByteOrder) -> np.dtype[Any]:
    """The structured dtype of rows whose lists have these lengths."""
    fields: list[Any] = []
    remaining = iter(lengths)
    for i, p in enumerate(element.properties):
        if p.count_dtype is not None:
            fields.append((f"n{i}", p.count_dtype.newbyteorder(order)))
            fields.append((f"p{i}", p.dtype.newbyteorder(order), (next(remaining),)))
        else:
            fields.append((f"p{i}", p.dtype.newbyteorder(order)))
    return np.dtype(fields)


def _decode_ragged_rows(
    data: bytes, start: int, element: Element, order: ByteOrder, path: Path
) -> tuple[Table, int]:
    ends, counts = _walk(data, start, element, order, path, element.count)
    end = int(ends[-1]) if element.count else start
    row_starts = np.concatenate([[start], ends[:-1]])[: element.count] - start
    raw = np.frombuffer(data, np.uint8, end - start, start)
    table: Table = {}
    lengths = iter(counts)
    for p, at in zip(element.properties, _positions(element, row_starts, counts), strict=True):
        if p.count_dtype is None:
            table[p.name] = _gather(raw, at, p.dtype, order)
            continue
        sizes = next(lengths)
        values = raw[_list_bytes(len(raw), at + p.count_dtype.itemsize, sizes * p.dtype.itemsize)]
        table[p.name] = {
            "counts": sizes.astype(p.count_dtype),
            "values": values.view(p.dtype.newbyteorder(order)).astype(p.dtype),
        }
    return table, end


def _encode_ragged_rows(
    element: Element, table: Mapping[str, Any], order: ByteOrder
) -> NDArray[np.uint8]:
    counts = [table[p.name]["counts"].astype(np.int64) for p in element.properties if p.is_list]
    sizes = np.full(element.count, element.row_bytes, np.int64)
    for p, length in zip([p for p in element.properties if p.is_list], counts, strict=True):
        sizes += length * p.dtype.itemsize
    ends = np.cumsum(sizes)
    raw = np.zeros(int(ends[-1]) if element.count else 0, np.uint8)
    lengths = iter(counts)
    for p, at in zip(element.properties, _positions(element, ends - sizes, counts), strict=True):
        values = table[p.name]
        if p.count_dtype is None:
            _scatter(raw, at, values, p.dtype, order)
            continue
        _scatter(raw, at, values["counts"], p.count_dtype, order)
        length = next(lengths) * p.dtype.itemsize
        mask = _list_bytes(len(raw), at + p.count_dtype.itemsize, length)
        raw[mask] = values["values"].astype(p.dtype.newbyteorder(order)).view(np.uint8)
    return raw


def _walk(
    data: bytes, start: int, element: Element, order: ByteOrder, path: Path, rows: int
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """(rows,) end of each row, and (rows,) lengths of each list property.

    A row begins where the row before it ends, so this loop cannot be vectorised.
    """
    steps: list[tuple[int, struct.Struct, int]] = []
    before = 0
    for p in element.properties:
        if p.count_dtype is None:
            before += p.dtype.itemsize
        else:
            prefix = "<" if p.count_dtype.newbyteorder(order).str[0] in "<|" else ">"
            reader = struct.Struct(prefix + p.count_dtype.char)
            steps.append((before, reader, p.dtype.itemsize))
            before = 0
    ends: list[int] = []
    lengths: list[int] = []
    at = start
    try:
        for _ in range(rows):
            for skip, reader, size in steps:
                at += skip
                (length,) = reader.unpack_from(data, at)
                if length < 0:
                    raise PdflowError(
                        f"{path}, byte {at}: element {element.name!r} has a list of length "
                        f"{length}: the file is damaged."
                    )
                lengths.append(length)
                at += reader.size + length * size
            at += before
            ends.append(at)
            if at > len(data):
                raise cut_short(element, path)
    except struct.error as error:
        raise cut_short(element, path) from error
    counts = np.array(lengths, np.int64).reshape(rows, len(steps))
    return np.array(ends, np.int64), list(counts.T)


def _positions(
    element: Element, row_starts: NDArray[np.int64], counts: Sequence[NDArray[np.int64]]
) -> list[NDArray[np.int64]]:
    """For each property (rows,): the first byte of its value or of its list length."""
    positions = []
    at = row_starts
    lengths = iter(counts)
    for p in element.properties:
        positions.append(at)
        at = at + (p.count_dtype or p.dtype).itemsize
        if p.is_list:
            at = at + next(lengths) * p.dtype.itemsize
    return positions


def _list_bytes(
    size: int, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """(size,): whether a byte belongs to a list; lists have these starts and lengths in bytes.

    No two lists touch, because the length of a list precedes it.
    """
    used = lengths > 0
    change = np.zeros(size + 1, np.int8)
    change[starts[used]] = 1
    change[(starts + lengths)[used]] = -1
    return np.cumsum(change[:-1], dtype=np.int8).view(np.bool_)


def _gather(
    raw: NDArray[np.uint8], at: NDArray[np.int64], dtype: np.dtype[Any], order: ByteOrder
) -> NDArray[Any]:
    found = raw[at[:, None] + np.arange(dtype.itemsize)]
    values: NDArray[Any] = found.view(dtype.newbyteorder(order)).reshape(-1)
    return values.astype(dtype)


def _scatter(
    raw: NDArray[np.uint8],
    at: NDArray[np.int64],
    values: NDArray[Any],
    dtype: np.dtype[Any],
    order: ByteOrder,
) -> None:
    data = np.ascontiguousarray(values, dtype.newbyteorder(order)).view(np.uint8)
    raw[at[:, None] + np.arange(dtype.itemsize)] = data.reshape(-1, dtype.itemsize)


def equal_length(lists: Mapping[str, NDArray[Any]]) -> int | None:
    """The common length of all lists, or None if they differ."""
    counts = lists["counts"]
    if not len(counts):
        return 0
    return int(counts[0]) if (counts == counts[0]).all() else None


def cut_short(element: Element, path: Path) -> PdflowError:
    """The error for a file that ends too early."""
    return PdflowError(
        f"{path} ends before the {element.count} rows of element {element.name!r} that the header "
        "promises: it is truncated or its header is wrong."
    )
