"""The rows of a PLY element in text, with lists of any length, as tables and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.io.exact import is_exact
from pdflow.io.ply.binary import Table, equal_length
from pdflow.io.ply.header import TYPE_NAMES, Element, Property
from pdflow.io.tabular.rows import format_rows, parse_rows, try_parse_rows

Doubles = list[NDArray[np.float64]]


def decode_ascii(lines: Sequence[str], first_line: int, element: Element, path: Path) -> Table:
    """The table in these lines, one row each; blank lines are skipped."""
    if not element.has_lists:
        doubles = [np.dtype(np.float64)] * len(element.properties)
        columns = parse_rows(lines, doubles, path, first_line) if doubles else []
        found = zip(element.properties, columns, strict=True)
        return {p.name: _fit(values, p.dtype, p, element, path) for p, values in found}
    numbers, counts = _equal_ascii_rows(lines, element) or _ragged_ascii_rows(
        lines, first_line, element, path
    )
    table: Table = {}
    for p, values, lengths in zip(element.properties, numbers, counts, strict=True):
        array = _fit(values, p.dtype, p, element, path)
        if p.count_dtype is None:
            table[p.name] = array
        else:
            sizes = _fit(lengths, p.count_dtype, p, element, path)
            table[p.name] = {"counts": sizes, "values": array}
    return table


def encode_ascii(element: Element, table: Mapping[str, Any]) -> str:
    """The rows of a table as lines."""
    if not element.count or not element.properties:
        return ""
    lengths = [equal_length(table[p.name]) for p in element.properties if p.is_list]
    if any(length is None for length in lengths):
        return _ragged_lines(element, table)
    columns: list[NDArray[Any]] = []
    for p in element.properties:
        values = table[p.name]
        if p.is_list:
            columns.append(values["counts"])
            columns += list(values["values"].reshape(element.count, -1).T)
        else:
            columns.append(values)
    return format_rows(columns)


def _equal_ascii_rows(lines: Sequence[str], element: Element) -> tuple[Doubles, Doubles] | None:
    """Numbers and list lengths of each property if all rows are like the first, or None."""
    first = lines[0].split() if lines else []
    columns = try_parse_rows(lines, len(first))
    if not first or columns is None:
        return None
    numbers, counts = [], []
    at = 0
    for p in element.properties:
        length = 1
        if p.is_list:
            if at >= len(columns) or (columns[at] != columns[at][0]).any():
                return None
            length = int(columns[at][0]) if 0 <= columns[at][0] < len(columns) else -1
            if length != columns[at][0]:
                return None
            at += 1
        rows = np.array(columns[at : at + length], np.float64)
        numbers.append(rows.T.reshape(-1))
        counts.append(np.full(len(columns[0]), float(length)))
        at += length
    return (numbers, counts) if at == len(columns) else None


def _ragged_ascii_rows(
    lines: Sequence[str], first_line: int, element: Element, path: Path
) -> tuple[Doubles, Doubles]:
    """Numbers and list lengths of each property, row by row."""
    numbers: list[list[float]] = [[] for _ in element.properties]
    counts: list[list[int]] = [[] for _ in element.properties]
    for i, line in enumerate(lines):
        if line.isspace():
            continue
        try:
            _split_row(list(map(float, line.split())), element, numbers, counts)
        except (ValueError, IndexError, OverflowError) as error:
            raise PdflowError(
                f"{path}, line {first_line + i}: this is not a row of element {element.name!r} as "
                "the header describes it: correct that line."
            ) from error
    return (
        [np.array(values, np.float64) for values in numbers],
        [np.array(lengths, np.float64) for lengths in counts],
    )


def _split_row(
    row: Sequence[float],
    element: Element,
    numbers: Sequence[list[float]],
    counts: Sequence[list[int]],
) -> None:
    """Append the numbers of one row, and their count, to each property."""
    at = 0
    for p, values, lengths in zip(element.properties, numbers, counts, strict=True):
        length = 1
        if p.is_list:
            length = int(row[at])
            if length < 0 or length != row[at]:
                raise ValueError("not the length of a list")
            at += 1
        values += row[at : at + length]
        lengths.append(length)
        at += length
    if at != len(row):
        raise ValueError("too many or too few numbers")


def _ragged_lines(element: Element, table: Mapping[str, Any]) -> str:
    parts: list[list[str]] = []
    for p in element.properties:
        if not p.is_list:
            parts.append(format_rows([table[p.name]]).split())
            continue
        counts = table[p.name]["counts"].tolist()
        words = format_rows([table[p.name]["values"]]).split()
        ends = np.cumsum(counts).tolist()
        parts.append(
            [" ".join([str(n), *words[end - n : end]]) for n, end in zip(counts, ends, strict=True)]
        )
    return "".join(" ".join(row) + "\n" for row in zip(*parts, strict=True))


def _fit(
    values: NDArray[np.float64], dtype: np.dtype[Any], p: Property, element: Element, path: Path
) -> NDArray[Any]:
    """Numbers from text in the dtype of the header."""
    if dtype.kind != "f" and not is_exact(values, dtype):
        raise PdflowError(
            f"{path}: property {p.name!r} of element {element.name!r} has a value that is not "
            f"{TYPE_NAMES[dtype]}: correct the value or the header."
        )
    with np.errstate(over="ignore"):
        return values.astype(dtype)
