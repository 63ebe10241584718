"""LAS clouds made by laspy, and their comparison."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import laspy
import numpy as np
import pytest

from pdflow import PointCloud


def random_values(rng: np.random.Generator, dtype: np.dtype, shape: Any) -> np.ndarray:
    """Random values over the whole range of a dtype."""
    if dtype.kind == "f":
        return (rng.normal(size=shape) * 1e3).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def make_laspy_cloud(
    point_format: int,
    version: str = "1.4",
    count: int = 300,
    extra: list[laspy.ExtraBytesParams] | None = None,
    seed: int = 0,
) -> laspy.LasData:
    """A cloud made by laspy with random values in every dimension."""
    rng = np.random.default_rng(seed)
    header = laspy.LasHeader(version=version, point_format=point_format)
    header.scales, header.offsets = [0.001, 0.01, 0.0001], [5e5, 5.5e6, -3.0]
    header.system_identifier, header.generating_software = "scanner 7", "by hand"
    header.file_source_id = 17
    header.add_extra_dims(extra or [])
    cloud = laspy.LasData(header)
    cloud.points = laspy.ScaleAwarePointRecord.zeros(count, header=header)
    for dim in header.point_format.dimensions:
        if dim.name in "XYZ":
            cloud[dim.name] = rng.integers(-(10**6), 10**6, count)
        elif dim.kind == laspy.point.dims.DimensionKind.BitField:
            cloud[dim.name] = rng.integers(0, 2**dim.num_bits, count)
        else:
            values = random_values(rng, dim.dtype.base, (count, *dim.dtype.shape))
            cloud.points.array[dim.name] = values
    return cloud


def check_same(a: PointCloud, b: PointCloud, las: bool = True) -> None:
    """Equal points, attributes, dtypes and metadata."""
    np.testing.assert_array_equal(a.points, b.points)
    assert set(a.attributes) == set(b.attributes)
    for name, values in a.attributes.items():
        assert b.attributes[name].dtype == values.dtype, name
        np.testing.assert_array_equal(b.attributes[name], values, err_msg=name)
    drop = set() if las else {"las"}
    assert {k: v for k, v in a.metadata.items() if k not in drop} == {
        k: v for k, v in b.metadata.items() if k not in drop
    }


def read_raw_points(path: Path) -> bytes:
    """The point records of a file, decompressed."""
    return laspy.read(path).points.array.tobytes()


@pytest.fixture
def laspy_cloud() -> Callable[..., laspy.LasData]:
    return make_laspy_cloud


@pytest.fixture
def assert_same() -> Callable[..., None]:
    return check_same


@pytest.fixture
def raw_points() -> Callable[[Path], bytes]:
    return read_raw_points
