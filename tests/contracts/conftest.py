"""Clouds with everything that a format may have to hold, and their comparison."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, write
from pdflow.errors import LossWarning
from pdflow.io import Format

M = 10
DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
METADATA: dict[str, Any] = {
    "crs": "EPSG:25832",
    "comments": ["by hand", "  two  blanks ", "two\nlines", "übrig", ""],
    "survey": {
        "blob": bytes(range(256)),
        "array": np.arange(6, dtype=">f4").reshape(2, 3),
        "list": [1, 2.5, None, True, {"a b": "ä\n"}, float("inf")],
    },
    "empty": {},
    "with blank": 1,
}


def make_coordinates() -> dict[str, Any]:
    """Points (M, 3) by name: around 0, in UTM, and exact in float32."""
    rng = np.random.default_rng(1)
    small = rng.normal(size=(M, 3))
    tenths_of_mm = np.rint(rng.uniform(0, 1e6, (M, 3))) * 1e-4
    return {
        "small": small,
        "utm": tenths_of_mm + np.array([5e6, 4e5, 100.0]),
        "float32": small.astype(np.float32).astype(np.float64),
    }


def make_values(dtype: str, width: int = 0) -> Any:
    """Random values of a dtype, with the extremes of what it can hold."""
    rng = np.random.default_rng(2)
    kind = np.dtype(dtype)
    shape = (M, width) if width else (M,)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.kind == "f":
        array = rng.normal(size=shape).astype(kind)
        array[:5].reshape(-1)[:5] = [np.nan, np.inf, -np.inf, -0.0, np.finfo(kind).max]
        return array
    limits = np.iinfo(kind)
    array = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    array.reshape(-1)[:2] = [limits.min, limits.max]
    return array


def make_usual_attributes() -> dict[str, Any]:
    """Attributes that every format holds."""
    return {
        "colors": make_values("u1", 3),
        "normals": make_values("f4", 3),
        "intensity": make_values("u2"),
        "classification": np.arange(M, dtype=np.uint8),
        "gps_time": np.linspace(3e8, 3e8 + 1, M),
    }


def is_same(a: Any, b: Any) -> bool:
    """Equality of metadata, types, dtypes and shapes."""
    if isinstance(a, np.ndarray):
        alike = isinstance(b, np.ndarray) and (a.dtype, a.shape) == (b.dtype, b.shape)
        return alike and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(is_same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(is_same, a, b))
    return type(a) is type(b) and a == b


def are_same_values(a: Any, b: Any) -> bool:
    """Equality of attributes in dtype, shape and values; NaN equals NaN, but 0 is not -0."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    equal = (a == b) & (np.signbit(a) == np.signbit(b)) if a.dtype.kind == "f" else a == b
    return bool((equal | (a != a)).all())


def check_same_cloud(a: PointCloud, b: PointCloud) -> None:
    """Equal points, attributes in equal order, and metadata."""
    np.testing.assert_array_equal(a.points, b.points)
    assert list(a.attributes) == list(b.attributes)
    assert all(are_same_values(v, b.attributes[k]) for k, v in a.attributes.items())
    assert is_same(a.metadata, b.metadata)


def check_points(fmt: Format, cloud: PointCloud, back: PointCloud) -> None:
    """Equal coordinates; in LAS within half a scale, which keeps 0.1 mm."""
    if fmt.name in ("las", "laz"):
        scale = np.asarray(back.metadata["las"]["scales"])
        assert (scale <= 1e-4).all()
        assert (np.abs(back.points - cloud.points) <= scale / 2 * (1 + 1e-6)).all()
    else:
        np.testing.assert_array_equal(back.points, cloud.points)


def write_and_listen(path: Path, cloud: PointCloud, fmt: Format) -> str:
    """Write a cloud and return the text of its LossWarning; there is at most one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        write(path, cloud, fmt.name)
    assert all(issubclass(w.category, LossWarning) for w in caught), [str(w) for w in caught]
    assert len(caught) <= 1, [str(w.message) for w in caught]
    return "".join(str(w.message) for w in caught)


@pytest.fixture
def coordinates() -> dict[str, Any]:
    """Points (M, 3) by name."""
    return make_coordinates()


@pytest.fixture
def values() -> Callable[..., Any]:
    """Makes random values of a dtype and width, with its extremes."""
    return make_values


@pytest.fixture
def usual_attributes() -> dict[str, Any]:
    """Attributes that every format holds."""
    return make_usual_attributes()


@pytest.fixture
def all_attributes() -> dict[str, Any]:
    """Attributes of every dtype and of several widths."""
    return {
        **make_usual_attributes(),
        "alpha": make_values("u1"),
        "flag": make_values("b1"),
        "descriptor": make_values("f8", 5),
        "offset": make_values("i2", 3),
        **{f"label_{dtype}": make_values(dtype) for dtype in DTYPES},
    }


@pytest.fixture
def rich_cloud(all_attributes: dict[str, Any]) -> PointCloud:
    """All attributes and all kinds of metadata, in UTM coordinates."""
    return PointCloud(make_coordinates()["utm"], all_attributes, METADATA)


@pytest.fixture
def plain_cloud() -> PointCloud:
    """Points that are exact in float32, with colours."""
    return PointCloud(make_coordinates()["float32"], {"colors": make_values("u1", 3)})


@pytest.fixture
def same() -> Callable[[Any, Any], bool]:
    """Tells whether metadata is exactly the same."""
    return is_same


@pytest.fixture
def same_values() -> Callable[[Any, Any], bool]:
    """Tells whether the values of attributes are exactly the same."""
    return are_same_values


@pytest.fixture
def assert_points() -> Callable[[Format, PointCloud, PointCloud], None]:
    """Asserts that a format kept the coordinates of a cloud."""
    return check_points


@pytest.fixture
def write_and_hear() -> Callable[[Path, PointCloud, Format], str]:
    """Writes a cloud and gives the text of its one LossWarning."""
    return write_and_listen


@pytest.fixture
def assert_same_cloud() -> Callable[[PointCloud, PointCloud], None]:
    """Asserts that two clouds are exactly the same, metadata included."""
    return check_same_cloud
