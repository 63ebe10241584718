"""Clouds from other formats in LAS: every type, name and width comes back or is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import laspy
import numpy as np
import pytest

from pdflow import PointCloud
from pdflow.errors import LossWarning
from pdflow.io import read, write

LaspyCloud = Callable[..., laspy.LasData]
Same = Callable[..., None]

DTYPES = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", ">i4", ">f8"]
DTYPES += ["c8", "c16", "M8[ns]", "m8[s]"]


@pytest.mark.parametrize("width", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_type_and_width_comes_back(tmp_path: Path, dtype: str, width: int) -> None:
    rng = np.random.default_rng(0)
    shape = (50, width) if width else (50,)
    raw = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
    if dtype == "?":
        raw &= 1
    values = raw.view(dtype).reshape(shape)
    cloud = PointCloud(rng.integers(0, 100, (50, 3)), {"value": values, "x": values})
    write(tmp_path / "a.laz", cloud)
    again = read(tmp_path / "a.laz")
    assert set(again.attributes) == {"value", "x"}
    assert again.attributes["value"].dtype == values.dtype
    assert again.attributes["value"].tobytes() == values.tobytes()
    assert again.attributes["x"].shape == values.shape
    write(tmp_path / "b.laz", again)
    assert (tmp_path / "a.laz").read_bytes() == (tmp_path / "b.laz").read_bytes()


@pytest.mark.parametrize(
    ("attributes", "point_format"),
    [
        ({}, 0),
        ({"intensity": "u2", "user_data": "u1"}, 0),
        ({"gps_time": "f8"}, 1),
        ({"colors": "u2"}, 2),
        ({"colors": "u1", "gps_time": "f4"}, 3),
        ({"classification": "u1"}, 6),
        ({"classification": "u1", "colors": "u2"}, 7),
        ({"colors": "u2", "nir": "u2"}, 8),
        ({"wavepacket_index": "u1", "scan_angle_rank": "i1"}, 4),
        ({"wavepacket_index": "u1", "overlap": "u1", "nir": "u2"}, 10),
        ({"intensity": "f4", "colors": "f4", "classification": "i4"}, 0),
    ],
)
def test_smallest_point_format_that_holds_the_attributes(
    tmp_path: Path, attributes: dict[str, str], point_format: int, assert_same: Same
) -> None:
    rng = np.random.default_rng(1)
    made = {
        name: rng.integers(0, 2, (20, 3) if name == "colors" else 20).astype(dtype)
        for name, dtype in attributes.items()
    }
    cloud = PointCloud(rng.integers(0, 9, (20, 3)), made)
    write(tmp_path / "a.las", cloud)
    assert laspy.read(tmp_path / "a.las").header.point_format.id == point_format
    assert_same(cloud, read(tmp_path / "a.las"), las=False)


def test_colors_of_8_bits_are_stored_as_other_software_expects(
    tmp_path: Path, assert_same: Same
) -> None:
    colors = np.array([[0, 1, 255], [7, 8, 9]], np.uint8)
    cloud = PointCloud(np.eye(3)[:2], {"colors": colors})
    write(tmp_path / "a.las", cloud)
    assert laspy.read(tmp_path / "a.las").blue.tolist() == [255 << 8, 9 << 8]
    assert_same(cloud, read(tmp_path / "a.las"), las=False)


def test_names_that_other_software_expects(tmp_path: Path, assert_same: Same) -> None:
    normals = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    cloud = PointCloud(np.arange(27).reshape(9, 3), {"normals": normals})
    write(tmp_path / "a.laz", cloud)
    np.testing.assert_array_equal(laspy.read(tmp_path / "a.laz").NormalY, normals[:, 1])
    assert_same(cloud, read(tmp_path / "a.laz"), las=False)


def test_awkward_names_come_back(tmp_path: Path, assert_same: Same) -> None:
    names = ["a" * 40, "a" * 41, "ä" * 20, "", "X", "red", "colors", "normals", "NormalX", "a b"]
    attributes: dict[str, Any] = {n: np.full(3, i, np.int16) for i, n in enumerate(names)}
    attributes["normals"] = np.eye(3)
    attributes["wide"] = np.arange(12.0).reshape(3, 4)
    attributes["wide[1]"] = np.arange(3)
    attributes["colors"] = np.zeros((3, 3), np.uint16)
    cloud = PointCloud(np.eye(3), attributes, {"comments": ["x"]})
    write(tmp_path / "a.laz", cloud)
    again = read(tmp_path / "a.laz")
    assert_same(cloud, again, las=False)
    laspy.read(tmp_path / "a.laz")
    write(tmp_path / "b.laz", again)
    assert (tmp_path / "a.laz").read_bytes() == (tmp_path / "b.laz").read_bytes()


def test_attributes_added_to_a_las_cloud(tmp_path: Path, laspy_cloud: LaspyCloud) -> None:
    laspy_cloud(1, "1.2", extra=[laspy.ExtraBytesParams("a", "u2")]).write(tmp_path / "a.las")
    cloud = read(tmp_path / "a.las")
    cloud.attributes["colors"] = np.full((300, 3), 200, np.uint8)
    cloud.attributes["flag"] = np.arange(300) % 2 == 0
    write(tmp_path / "b.las", cloud)
    again = read(tmp_path / "b.las")
    assert again.metadata["las"]["point_format"] == 3
    for name, values in cloud.attributes.items():
        assert again.attributes[name].dtype == values.dtype
        np.testing.assert_array_equal(again.attributes[name], values)


def test_dimensions_that_other_software_fills_later_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.las"
    write(path, PointCloud(np.eye(3), {"label": np.array([True, False, True])}))
    assert set(read(path).attributes) == {"label"}
    las = laspy.read(path)
    las.header.generating_software = "another"
    las.user_data = [1, 2, 3]
    las.write(path)
    again = read(path)
    assert again.attributes["user_data"].tolist() == [1, 2, 3]
    assert again.attributes["label"].dtype == bool


def test_one_warning_names_everything_that_is_left_out(tmp_path: Path) -> None:
    cloud = PointCloud(
        np.eye(3),
        {
            "text": np.array(["a", "b", "c"]),
            "thing": np.array([None, 1, "x"], object),
            "nothing": np.zeros((3, 0)),
            "huge": np.zeros((3, 400)),
            "kept": np.arange(3),
        },
        {"open": {1, 2}, "comments": ["kept"]},
    )
    with pytest.warns(LossWarning) as caught:
        write(tmp_path / "a.laz", cloud)
    assert len(caught) == 1
    for name in ("text", "thing", "nothing", "huge", "open"):
        assert f"'{name}'" in str(caught[0].message)
    again = read(tmp_path / "a.laz")
    assert set(again.attributes) == {"kept"}
    assert again.metadata["comments"] == ["kept"]
