"""Clouds, comparisons and refusals, shared by the tests of single formats."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, open_reader, read
from pdflow.errors import PdflowError


def assert_same_attributes(a: PointCloud, b: PointCloud) -> None:
    """Equal points, names, order, dtypes, shapes and values (NaN equals NaN)."""
    np.testing.assert_array_equal(a.points, b.points)
    assert list(a.attributes) == list(b.attributes)
    for name, values in a.attributes.items():
        other = b.attributes[name]
        assert (values.dtype, values.shape) == (other.dtype, other.shape), name
        np.testing.assert_array_equal(values, other, err_msg=name)


def assert_refused(
    path: Path, content: str | bytes, message: str, reader: Callable[[Path], Any] = read
) -> None:
    """A file with this content is refused in one sentence with its name and this message."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(PdflowError, match=message) as caught:
        reader(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def assert_read_or_refused(path: Path) -> None:
    """Reading succeeds, or fails with one sentence and no other error."""
    try:
        message = f"{len(read(path))} points"
    except PdflowError as error:
        message = str(error)
    assert message
    assert "\n" not in message


def read_in_chunks(path: Path, size: int) -> tuple[int, int]:
    """Read a file in chunks: the number of points, and the peak of memory in bytes."""
    tracemalloc.start()
    try:
        with open_reader(path) as reader:
            count = sum(len(chunk) for chunk in reader.chunks(size))
        return count, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def same_attributes() -> Callable[[PointCloud, PointCloud], None]:
    """Asserts that two clouds agree in points and attributes, exactly."""
    return assert_same_attributes


@pytest.fixture
def refused() -> Callable[..., None]:
    """Asserts that a file with some content is refused with some message."""
    return assert_refused


@pytest.fixture
def read_or_refused() -> Callable[[Path], None]:
    """Asserts that a file reads well or is refused in one sentence."""
    return assert_read_or_refused


@pytest.fixture
def memory_in_chunks() -> Callable[[Path, int], tuple[int, int]]:
    """Reads a file in chunks and measures its peak of memory."""
    return read_in_chunks


@pytest.fixture
def example_cloud() -> PointCloud:
    """20 points with attributes of many types, and metadata."""
    rng, count = np.random.default_rng(0), 20
    return PointCloud(
        rng.normal((5e5, 5e6, 100), size=(count, 3)),
        {
            "intensity": rng.integers(0, 60000, count).astype(np.uint16),
            "colors": rng.integers(0, 256, (count, 3)).astype(np.uint8),
            "normals": rng.normal(size=(count, 3)).astype(np.float32),
            "gps_time": rng.uniform(0, 1e9, count),
            "inside": rng.integers(0, 2, count).astype(bool),
            "id": rng.integers(-(2**40), 2**40, count),
            "half": rng.normal(size=count).astype(np.float16),
            "features": rng.normal(size=(count, 5)).astype(np.float32),
        },
        {"crs": "EPSG:25832", "comments": ["by hand", "x y z"], "las": {"vlr": b"\0\1" * 999}},
    )
