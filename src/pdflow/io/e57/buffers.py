"""Point fields of a scan, read and written in pieces: a scan need not fit in memory."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

BUFFER = 1 << 16
"""Points that are handed to the library at once when a scan is written."""


def read_pieces(
    points: Any, types: Mapping[str, np.dtype[Any]], size: int, file: Any, libe57: ModuleType
) -> Generator[dict[str, NDArray[Any]]]:
    """The values of some point fields, (m,) each, at most `size` at a time.

    Close the iterator before the file. A file has one such iterator at a time.
    """
    if not points.childCount():
        return
    capacity = min(points.childCount(), size)
    arrays = {name: np.zeros(capacity, _buffer_type(dtype)) for name, dtype in types.items()}
    reader = points.reader(_buffers(arrays, capacity, file, libe57))
    try:
        while count := reader.read():
            yield {name: array[:count].astype(types[name]) for name, array in arrays.items()}
    finally:
        reader.close()


class FieldWriter:
    """Fills an empty compressed vector with point fields.

    Pieces are joined to buffers of one size, so that the file does not depend on the pieces. Close
    or discard it before the file: one that is left open crashes the process when it is freed.
    """

    def __init__(
        self, points: Any, types: Mapping[str, np.dtype[Any]], file: Any, libe57: ModuleType
    ) -> None:
        self._arrays = {n: np.zeros(BUFFER, _buffer_type(dtype)) for n, dtype in types.items()}
        self._writer = points.writer(_buffers(self._arrays, BUFFER, file, libe57))
        self._filled = 0

    def write(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Append fields (m,)."""
        count, start = len(next(iter(values.values()))), 0
        while start < count:
            size = min(BUFFER - self._filled, count - start)
            for name, array in self._arrays.items():
                array[self._filled : self._filled + size] = values[name][start : start + size]
            self._filled += size
            start += size
            if self._filled == BUFFER:
                self._flush()

    def close(self) -> None:
        """Write what is left."""
        try:
            self._flush()
        finally:
            self._writer.close()

    def discard(self) -> None:
        """Give up."""
        self._writer.close()

    def _flush(self) -> None:
        count, self._filled = self._filled, 0
        if count:
            self._writer.write(count)


def _buffers(
    arrays: Mapping[str, NDArray[Any]], capacity: int, file: Any, libe57: ModuleType
) -> Any:
    buffers = libe57.VectorSourceDestBuffer()
    for name, array in arrays.items():
        buffers.append(libe57.SourceDestBuffer(file, name, array, capacity, True, True))
    return buffers


def _buffer_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    # pye57 needs types without byte order, and handles wide integers only as `long long`.
    wide = dtype.kind in "iu" and dtype.itemsize > 2
    return np.dtype(np.longlong if wide else dtype.char)
