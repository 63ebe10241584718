"""Rows of numbers as text: lines to columns and back, fast, with the line in every error."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError

COMMENT_MARKS = ("#", "//", "%")
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class RowStyle:
    """How a row is written.

    delimiter            between values; None for blanks and tabs
    decimal_comma        whether 1,5 means 1.5
    ends_with_delimiter  whether each row ends with a delimiter
    """

    delimiter: str | None = None
    decimal_comma: bool = False
    ends_with_delimiter: bool = False

    def split(self, line: str) -> list[str]:
        """The values of one row as text.

        >>> RowStyle(";", decimal_comma=True).split("1,5; 2;3\\n")
        ['1.5', '2', '3']
        """
        values = [value.strip().strip('"') for value in self._clean(line).split(self.delimiter)]
        return values if self.delimiter or line.strip() else []

    def clean(self, lines: Sequence[str]) -> Sequence[str]:
        """Lines with a decimal point and without a final delimiter."""
        if self.decimal_comma or self.ends_with_delimiter:
            return [self._clean(line) for line in lines]
        return lines

    def _clean(self, line: str) -> str:
        if self.decimal_comma:
            line = line.replace(",", ".")
        if self.ends_with_delimiter:
            line = line.strip().removesuffix(self.delimiter or "")
        return line.strip("\r\n")


BLANKS = RowStyle()


def is_number(text: str) -> bool:
    """Whether text is one number in the notation of files.

    >>> [is_number(text) for text in ("1", "-1e-3", "nan", "1_000", "x", "")]
    [True, True, True, False, False, False]
    """
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def is_comment(line: str) -> bool:
    """Whether a line is blank or a comment."""
    line = line.lstrip()
    return not line or line.startswith(COMMENT_MARKS)


def parse_rows(
    lines: Sequence[str],
    dtypes: Sequence[np.dtype[Any]],
    path: Path,
    first_line: int,
    style: RowStyle = BLANKS,
) -> list[NDArray[Any]]:
    """Columns (M,) of float64 or 64-bit integers; blank lines and comments are skipped.

    first_line  number of the first line in the file, for errors

    >>> [c.tolist() for c in parse_rows(["1 2"], [np.dtype("i8"), np.dtype("f8")], Path("a"), 1)]
    [[1], [2.0]]
    """
    try:
        return _parse(lines, dtypes, style)
    except ValueError:
        numbers = [i for i, line in enumerate(lines) if not is_comment(line)]
        rows = [lines[i] for i in numbers]
    if len(rows) < len(lines):
        try:
            return _parse(rows, dtypes, style)
        except ValueError:
            pass
    bad = _first_bad_row(rows, dtypes, style)
    place = f"{path}, line {first_line + numbers[bad]}"
    raise PdflowError(f"{place}: {_what_is_wrong(rows[bad], dtypes, style)}")


def try_parse_rows(lines: Sequence[str], columns: int) -> list[NDArray[Any]] | None:
    """`parse_rows` for float64 values between blanks; None if the lines are different."""
    try:
        return _parse(lines, [np.dtype(np.float64)] * columns, BLANKS)
    except ValueError:
        return None


def format_rows(columns: Sequence[NDArray[Any]], delimiter: str = " ") -> str:
    """Lines with one value of each column (M,): floats in their shortest exact form.

    >>> format_rows([np.array([0.1, 1]), np.array([1, 2], np.uint8), np.float32([0.3, np.nan])])
    '0.1 1 0.3\\n1.0 2 nan\\n'
    """
    lists = [_python_numbers(column) for column in columns]
    row = delimiter.join(["%r"] * len(lists)) + "\n"
    text = []
    for start in range(0, len(lists[0]), _ROWS_AT_ONCE):
        rows = zip(*(values[start : start + _ROWS_AT_ONCE] for values in lists), strict=True)
        flat = tuple(chain.from_iterable(rows))
        text.append(row * (len(flat) // len(lists)) % flat)
    return "".join(text)


def _parse(
    lines: Sequence[str], dtypes: Sequence[np.dtype[Any]], style: RowStyle
) -> list[NDArray[Any]]:
    if not lines:
        return [np.empty(0, dtype) for dtype in dtypes]
    uniform = all(dtype == np.float64 for dtype in dtypes)
    record = [(f"c{i}", dtype) for i, dtype in enumerate(dtypes)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy only warns of a fraction in an integer column
        try:
            rows: NDArray[Any] = np.loadtxt(
                style.clean(lines),
                np.dtype(np.float64 if uniform else record),
                comments=None,
                delimiter=style.delimiter,
                quotechar='"' if style.delimiter else None,
                ndmin=2 if uniform else 1,
            )
        except (Warning, OverflowError) as error:
            raise ValueError(str(error)) from error
    if not uniform:
        return [rows[name] for name, _ in record]
    if rows.shape[1] != len(dtypes):
        raise ValueError("wrong number of values in all rows")
    return list(rows.T)


def _first_bad_row(rows: Sequence[str], dtypes: Sequence[np.dtype[Any]], style: RowStyle) -> int:
    """The first row that cannot be parsed, by bisection."""
    good, bad = 0, len(rows)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _parse(rows[good:middle], dtypes, style)
            good = middle
        except ValueError:
            bad = middle
    return good


def _what_is_wrong(row: str, dtypes: Sequence[np.dtype[Any]], style: RowStyle) -> str:
    values = style.split(row)
    remedy = "correct or remove that line."
    for value, dtype in zip(values, dtypes, strict=False):
        if not is_number(value):
            return f"{value[:40]!r} is not a number: {remedy}"
        try:
            _parse([value], [dtype], BLANKS)
        except ValueError:
            return f"{value[:40]!r} is not {dtype.name}: {remedy}"
    if len(values) != len(dtypes):
        return f"{len(values)} values instead of {len(dtypes)}: {remedy}"
    return f"the row cannot be read: {remedy}"


def _python_numbers(column: NDArray[Any]) -> list[Any]:
    """Python numbers whose repr is the shortest text that restores the value."""
    if column.dtype.kind == "f" and column.dtype.itemsize < 8:
        column = _shortest(column)
    elif column.dtype.kind == "b":
        column = column.astype(np.uint8)
    numbers: list[Any] = column.tolist()
    return numbers


def _shortest(values: NDArray[Any]) -> NDArray[np.float64]:
    """Doubles with few decimal digits that round to these float32 or float16 values."""
    exact: NDArray[np.float64] = values.astype(np.float64)
    best: NDArray[np.float64] = exact.copy()
    open_rows = np.flatnonzero(np.isfinite(exact) & (exact != 0))
    for digits in range(3, 10):
        value = exact[open_rows]
        power = digits - 1 - np.floor(np.log10(np.abs(value)))
        # Powers of ten up to 22 are exact, so one division gives the double nearest the decimal.
        down, up = 10.0 ** np.clip(power, 0, 22), 10.0 ** np.clip(-power, 0, 22)
        rounded = np.rint(value * down / up) / down * up
        with np.errstate(over="ignore"):
            fits = rounded.astype(values.dtype) == values[open_rows]
        best[open_rows[fits]] = rounded[fits]
        open_rows = open_rows[~fits]
    return best
