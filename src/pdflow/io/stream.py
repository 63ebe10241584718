"""Readers and writers: the header first, then chunks, so that no file must fit in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud

CHUNK = 1_000_000
"""Default number of points in a chunk."""


@dataclass(frozen=True)
class Field:
    """The type of an attribute: its dtype, and width 0 for (M,) or W for (M, W)."""

    dtype: np.dtype[Any]
    width: int = 0

    @property
    def columns(self) -> int:
        """Values per point."""
        return max(self.width, 1)

    @staticmethod
    def of(values: NDArray[Any]) -> Field:
        """The field of an attribute (M,) or (M, W)."""
        return Field(values.dtype, values.shape[1] if values.ndim == 2 else 0)


@dataclass(frozen=True)
class Header:
    """What is known of a file before its points are read.

    count        points in the file; None if only the end of the file shows it (text)
    fields       attribute name -> Field
    metadata     as in PointCloud
    point_dtype  dtype of the stored coordinates (float32 or float64)
    """

    count: int | None
    fields: dict[str, Field] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    point_dtype: np.dtype[Any] = np.dtype(np.float64)

    @staticmethod
    def of(cloud: PointCloud) -> Header:
        """The header of a file with this cloud; float32 if that holds all coordinates exactly."""
        with np.errstate(over="ignore"):
            narrow = cloud.points.astype(np.float32).astype(np.float64)
        exact = np.array_equal(narrow, cloud.points, equal_nan=True)
        return Header(
            count=len(cloud),
            fields=fields_of(cloud),
            metadata=cloud.metadata,
            point_dtype=np.dtype(np.float32 if exact else np.float64),
        )


def fields_of(cloud: PointCloud) -> dict[str, Field]:
    """Attribute name -> Field.

    >>> fields_of(PointCloud([[0, 0, 0]], {"colors": np.zeros((1, 3), np.uint8)}))
    {'colors': Field(dtype=dtype('uint8'), width=3)}
    """
    return {name: Field.of(values) for name, values in cloud.attributes.items()}


class Reader:
    """An open file: its header, then its points in chunks. A context manager."""

    header: Header

    def chunks(self, size: int = CHUNK) -> Iterator[PointCloud]:
        """Clouds of at most `size` points, in file order, each with the file's metadata."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Writer:
    """A file that is written in chunks. `finish` completes it (counts, trailers)."""

    def write(self, chunk: PointCloud) -> None:
        """Append points with exactly the attributes of the header."""
        raise NotImplementedError

    def finish(self) -> None:
        """Complete and close the file."""

    def abort(self) -> None:
        """Close the file without completing it."""

    def write_all(self, chunks: Iterable[PointCloud]) -> None:
        """Write all chunks and finish the file, or abort it on an error."""
        try:
            for chunk in chunks:
                self.write(chunk)
        except BaseException:
            self.abort()
            raise
        self.finish()


class MemoryReader(Reader):
    """A Reader over a cloud that is already in memory, for formats that cannot stream."""

    def __init__(self, cloud: PointCloud) -> None:
        self.header = Header.of(cloud)
        self._cloud = cloud

    def chunks(self, size: int = CHUNK) -> Iterator[PointCloud]:
        """Slices of the cloud."""
        for start in range(0, len(self._cloud), size):
            yield self._cloud[start : start + size]
