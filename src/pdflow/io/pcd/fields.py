"""PCD fields and columns of attributes; colours packed into one field and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.io.exact import cast_exactly
from pdflow.io.pcd.header import DTYPES, PADDING, PcdField
from pdflow.io.tabular.columns import COLORS, COORDINATES, Dialect

PACKED = ("rgb", "rgba")
DIALECT = Dialect(
    dtypes=frozenset(DTYPES.values()),
    triples={"colors": COLORS, "normals": ("normal_x", "normal_y", "normal_z")},
    reserved=frozenset({*COORDINATES, *PACKED, PADDING}),
)

Block = tuple[PcdField, NDArray[Any]]
"""A field and its values (M, W)."""


def is_packed(field: PcdField) -> bool:
    """Whether a field holds colours packed into 32 bits."""
    return field.name in PACKED and field.count == 1 and field.dtype.itemsize == 4


def packed_bits(values: NDArray[Any]) -> tuple[NDArray[np.uint32], str]:
    """Packed colours (M, 1) as (M,) uint32, and their TYPE in the file.

    The bits of a float are the colour. Text, which is parsed as float64, may hold the integer
    instead; its size gives it away, because the bits of a colour without alpha make a float far
    below 1.
    """
    code = {"f": "F", "u": "U", "i": "I"}[values.dtype.kind]
    if values.dtype == np.float64:
        whole = (values >= 1) & (values < 2**32) & (values == np.floor(values))
        if whole.any() and (whole | (values == 0)).all():
            return values[:, 0].astype(np.uint32), "U"
        values = cast_exactly(values, np.dtype(np.float32), "packed colours")
    return np.ascontiguousarray(values[:, 0]).view(np.uint32), code


def unpack_colors(
    bits: NDArray[np.uint32], with_alpha: bool
) -> list[tuple[str, NDArray[np.uint8]]]:
    """Columns red, green and blue, and alpha on request, of packed colours (M,)."""
    shifts = dict(zip(COLORS, (16, 8, 0), strict=True)) | ({"alpha": 24} if with_alpha else {})
    return [(name, (bits >> shift).astype(np.uint8)) for name, shift in shifts.items()]


def pack_colors(
    colors: NDArray[np.uint8], alpha: NDArray[np.uint8] | None, packing: object, data: str
) -> Block:
    """Colours (M, 3) as one field, packed as in the original file."""
    was = list(map(str, packing)) if isinstance(packing, list) and len(packing) == 2 else ["", ""]
    red, green, blue = colors.astype(np.uint32).T
    bits = red << 16 | green << 8 | blue
    if alpha is not None:
        bits |= alpha.astype(np.uint32) << 24
    # The reader takes the first byte of a field rgb for alpha only if it is not zero anywhere.
    name = "rgb" if alpha is None or (was[0] == "rgb" and alpha.any()) else "rgba"
    code = was[1] if (was[1], 4) in DTYPES else "F" if name == "rgb" else "U"
    if data == "ascii" and alpha is not None and code == "F":
        code = "U"  # as floats many colours with alpha are NaN, and text has only one NaN
    field = PcdField(name, DTYPES[code, 4])
    return field, bits.view(field.dtype)[:, None]
