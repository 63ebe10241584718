"""Any number type as one of the ten that every format knows, bit by bit.

Booleans, half floats, complex numbers, dates and foreign byte orders become integers or floats of
the same bits; a format that notes the real type restores them exactly.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.io.stream import Field

PLAIN_TYPES = tuple(
    np.dtype(t) for t in ("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f4", "<f8")
)
_STAND_INS = {"?": "u1", "e": "<u2", "F": "<f4", "D": "<f8", "m": "<i8", "M": "<i8"}


def note_of(kind: Field) -> dict[str, Any]:
    """The note from which `noted_field` restores the field.

    >>> noted_field(note_of(Field(np.dtype("u2"), 3)))
    Field(dtype=dtype('uint16'), width=3)
    """
    return {"dtype": kind.dtype.str, "width": kind.width}


def noted_field(note: object) -> Field | None:
    """The field in a note of a file; None if its `dtype` or `width` is invalid.

    >>> noted_field({"dtype": "(u2", "width": 0}) is None
    True
    """
    text, width = (note.get("dtype"), note.get("width")) if isinstance(note, dict) else (None, None)
    if not isinstance(text, str) or not isinstance(width, int) or width < 0:
        return None
    if not re.fullmatch(r"[<>|][biufcmM]\d{1,2}(\[\w{1,8}\])?", text):
        return None
    try:
        return Field(np.dtype(text), int(width))
    except (TypeError, ValueError):
        return None


def plain_type(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], int] | None:
    """The plain type for a dtype, and how many plain values one value needs.

    >>> plain_type(np.dtype(np.complex64)), plain_type(np.dtype("U3"))
    ((dtype('float32'), 2), None)
    """
    little = dtype.newbyteorder("<")
    if little in PLAIN_TYPES:
        return little, 1
    if dtype.char not in _STAND_INS:
        return None
    plain = np.dtype(_STAND_INS[dtype.char])
    return plain, dtype.itemsize // plain.itemsize


def to_plain(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Columns (M, C) of the plain type of `dtype` for values (M,) or (M, W)."""
    plain, _ = plain_type(dtype) or (dtype, 1)
    columns = values[:, None] if values.ndim == 1 else values
    return np.ascontiguousarray(columns, dtype.newbyteorder("<")).view(plain)


def from_plain(columns: NDArray[Any], kind: Field) -> NDArray[Any]:
    """Values (M,) or (M, W) of a field from columns (M, C) of its plain type."""
    columns = np.ascontiguousarray(columns)
    boolean = kind.dtype.kind == "b"
    values = columns != 0 if boolean else columns.view(kind.dtype.newbyteorder("<"))
    shape = (len(columns), kind.width) if kind.width else (len(columns),)
    return np.asarray(values.reshape(shape), kind.dtype)
