"""PCD: all three kinds of data, COUNT, padding, organised clouds."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, read, write
from pdflow.errors import LossWarning
from pdflow.io.pcd.lzf import compress, decompress

Same = Callable[[PointCloud, PointCloud], None]
KINDS = ("ascii", "binary", "binary_compressed")
RNG = np.random.default_rng(0)
Header = Callable[..., bytes]
PcdFile = Callable[[bytes], Path]


def rich_cloud(data: str, **pcd: Any) -> PointCloud:
    """A cloud with every kind of attribute that PCD holds."""
    points = RNG.normal(size=(12, 3))
    points[3] = np.nan
    return PointCloud(
        points,
        {
            "normals": RNG.normal(size=(12, 3)).astype(np.float32),
            "colors": RNG.integers(0, 256, (12, 3), np.uint8),
            "alpha": RNG.integers(0, 256, 12, np.uint8),
            "histogram": RNG.normal(size=(12, 33)).astype(np.float32),
            **{f"i{8 * n}": RNG.integers(-100, 100, 12).astype(f"i{n}") for n in (1, 2, 4, 8)},
            **{f"u{8 * n}": RNG.integers(0, 100, 12).astype(f"u{n}") for n in (1, 2, 4, 8)},
            "far": np.array([2**63 - 1, -(2**63)] * 6),
            "flag": RNG.integers(0, 2, 12).astype(bool),
            "one": RNG.normal(size=(12, 1)),
            "x": RNG.normal(size=(12, 3)),
            "rgb": np.arange(12, dtype=np.uint16),
        },
        {
            "comments": ["by hand", ".PCD v0.7 too"],
            "crs": "EPSG:25832",
            "las": {"vlrs": [{"data": b"\x00\n\xff", "offset": np.array([1.0, np.inf])}]},
            "pcd": {"data": data, "width": 4, "height": 3, "sensor": "kinect", **pcd},
        },
    )


@pytest.mark.parametrize("kind", KINDS)
def test_everything_comes_back(tmp_path: Path, kind: str, same_attributes: Same) -> None:
    cloud = rich_cloud(kind, viewpoint=[1.5, -2.0, 0.1, 0.5, 0.5, 0.5, 0.5], rgb=["rgba", "U"])
    write(tmp_path / "a.pcd", cloud)
    assert f"\nDATA {kind}\n".encode() in (tmp_path / "a.pcd").read_bytes()
    back = read(tmp_path / "a.pcd")
    same_attributes(back, cloud)
    assert back.metadata["pcd"] == cloud.metadata["pcd"]
    assert back.metadata["comments"] == cloud.metadata["comments"]
    assert back.metadata["crs"] == "EPSG:25832"
    (vlr,) = back.metadata["las"]["vlrs"]
    assert vlr["data"] == b"\x00\n\xff"
    assert vlr["offset"].tolist() == [1.0, np.inf]
    assert set(back.metadata) == set(cloud.metadata)


@pytest.mark.parametrize("kind", KINDS)
def test_coordinates_are_float32_only_if_that_is_exact(tmp_path: Path, kind: str) -> None:
    utm = np.array([[5e6 + 1e-4, 4e5 + 1e-4, 0.1], [np.nan, 1, 2]])
    for points, size in ((utm, b"8 8 8"), (utm.astype(np.float32), b"4 4 4")):
        write(tmp_path / "a.pcd", PointCloud(points, None, {"pcd": {"data": kind}}))
        assert b"\nSIZE " + size + b"\n" in (tmp_path / "a.pcd").read_bytes()
        np.testing.assert_array_equal(read(tmp_path / "a.pcd").points, points.astype(np.float64))


def test_padding_and_counts_in_every_kind(header: Header, pcd_file: PcdFile) -> None:
    dtype = np.dtype("<u1,(3,)<i2,(2,)<u1,<f8,<f4,<f4,<i8")  # tag, pad, pair, x, y, z, id
    rows = np.zeros(2, dtype)
    rows["f0"], rows["f2"], rows["f3"] = [7, 8], [[1, 2], [3, 4]], [0.1, 0.2]
    rows["f4"], rows["f5"], rows["f6"] = [1, 2], [3, 4], [-5, 2**62]
    columns = b"".join(rows[name].tobytes() for name in dtype.names or ())
    packed = compress(columns)
    bodies = {
        "ascii": b"7 0 0 0 1 2 0.1 1 3 -5\r\n\r\n8 0 0 0 3 4 0.2 2 4 %d" % 2**62,
        "binary": rows.tobytes(),
        "binary_compressed": struct.pack("<II", len(packed), len(columns)) + packed,
    }
    for kind, body in bodies.items():
        head = header(
            FIELDS="tag _ pair x y z id",
            SIZE="1 2 1 8 4 4 8",
            TYPE="U I U F F F I",
            COUNT="1 3 2 1 1 1 1",
            DATA=kind,
        )
        cloud = read(pcd_file(head + body))
        assert cloud.points.tolist() == [[0.1, 1, 3], [0.2, 2, 4]]
        assert {n: (v.dtype.name, v.tolist()) for n, v in cloud.attributes.items()} == {
            "tag": ("uint8", [7, 8]),
            "pair": ("uint8", [[1, 2], [3, 4]]),
            "id": ("int64", [-5, 2**62]),
        }


def test_two_padding_fields_and_repeated_names(header: Header, pcd_file: PcdFile) -> None:
    changes = {"SIZE": "4 4 4 4 4 4 4", "TYPE": "F F F F F F F", "COUNT": "1 1 1 1 1 1 1"}
    head = header(FIELDS="x _ y _ z a a", **changes)
    cloud = read(pcd_file(head + b"1 9 2 9 3 4 5\n1 9 2 9 3 6 7\n"))
    assert cloud.points[0].tolist() == [1, 2, 3]
    assert {n: v.tolist() for n, v in cloud.attributes.items()} == {"a": [4, 6], "a_": [5, 7]}


def test_oldest_files(pcd_file: PcdFile) -> None:
    text = b"# .PCD v.5\n# hello\nVERSION .5\nCOLUMNS x y z\nPOINTS 2\nDATA ascii\n1 2 3\n4 5 nan\n"
    cloud = read(pcd_file(text))
    np.testing.assert_array_equal(cloud.points, [[1, 2, 3], [4, 5, np.nan]])
    assert cloud.metadata["comments"] == ["hello"]
    assert (cloud.metadata["pcd"]["width"], cloud.metadata["pcd"]["height"]) == (2, 1)


def test_comments_that_are_not_utf8(header: Header, pcd_file: PcdFile) -> None:
    data = header().replace(b"VERSION", b"# H\xf6he\nVERSION") + b"1 2 3\n4 5 6\n"
    assert read(pcd_file(data)).metadata["comments"] == ["Höhe"]


@pytest.mark.parametrize(
    ("attributes", "fields"),
    [
        ({"colors": np.ones((2, 3), np.uint8)}, "x y z rgb"),
        ({"colors": np.ones((2, 3), np.uint8), "alpha": np.zeros(2, np.uint8)}, "x y z rgba"),
        ({"alpha": np.zeros(2, np.uint8), "colors": np.ones((2, 3), np.uint8)}, "x y z alpha rgb"),
        ({"colors": np.ones((2, 3), np.uint8), "alpha": np.ones(2)}, "x y z rgb alpha"),
        ({"colors": np.ones((2, 3), np.uint16)}, "x y z red green blue"),
        ({"colors": np.ones((2, 4), np.uint8)}, "x y z colors"),
        ({"colors": np.ones(2, np.uint8)}, "x y z colors"),
        ({"red": np.ones(2, "u1"), "green": np.ones(2, "u1")}, "x y z red green"),
        ({"normals": np.ones((2, 3))}, "x y z normal_x normal_y normal_z"),
    ],
)
def test_which_fields_attributes_become(
    tmp_path: Path, attributes: dict[str, Any], fields: str, same_attributes: Same
) -> None:
    cloud = PointCloud(np.eye(3)[:2], attributes)
    write(tmp_path / "a.pcd", cloud)
    assert f"\nFIELDS {fields}\n".encode() in (tmp_path / "a.pcd").read_bytes()
    same_attributes(read(tmp_path / "a.pcd"), cloud)


def test_organised_cloud_keeps_its_shape_until_points_are_removed(tmp_path: Path) -> None:
    cloud = rich_cloud("binary")
    for part, shape in ((cloud, (4, 3)), (cloud[:11], (11, 1))):
        write(tmp_path / "a.pcd", part)
        pcd = read(tmp_path / "a.pcd").metadata["pcd"]
        assert (pcd["width"], pcd["height"]) == shape


@pytest.mark.parametrize("viewpoint", [None, "here", [1, 2], ["a"] * 7])
def test_invalid_metadata_does_not_break_the_header(tmp_path: Path, viewpoint: Any) -> None:
    pcd = {"data": "zip", "width": -3, "height": -1, "viewpoint": viewpoint, "rgb": 3}
    write(
        tmp_path / "a.pcd", PointCloud(np.eye(3), {"colors": np.eye(3, dtype="u1")}, {"pcd": pcd})
    )
    back = read(tmp_path / "a.pcd").metadata["pcd"]
    assert back["data"] == "binary"
    assert back["viewpoint"] == [0, 0, 0, 1, 0, 0, 0]


def test_one_warning_names_what_pcd_cannot_hold(tmp_path: Path) -> None:
    cloud = PointCloud(np.eye(3), {"label": np.array(["a", "b", "c"])}, {"odd": object(), "pcd": 3})
    expected = r"PCD cannot hold attribute 'label' .*metadata 'odd'.*metadata 'pcd'"
    with pytest.warns(LossWarning, match=expected):
        write(tmp_path / "a.pcd", cloud)


def test_compressed_data_is_stored_column_by_column(tmp_path: Path) -> None:
    points = np.arange(12, dtype=np.float32).reshape(4, 3)
    weights = np.arange(8, dtype=np.uint8).reshape(4, 2)
    cloud = PointCloud(points, {"w": weights}, {"pcd": {"data": "binary_compressed"}})
    write(tmp_path / "a.pcd", cloud)
    body = (tmp_path / "a.pcd").read_bytes().partition(b"DATA binary_compressed\n")[2]
    n_packed, n_bytes = struct.unpack("<II", body[:8])
    assert len(body) == 8 + n_packed
    assert decompress(body[8:], n_bytes) == points.T.tobytes() + weights.tobytes()


@pytest.mark.data
@pytest.mark.parametrize("name", ["milk", "lamppost"])
def test_real_files_survive_ply(
    shared: Path, tmp_path: Path, name: str, same_attributes: Same
) -> None:
    first = read(shared / "data" / "real" / f"{name}.pcd")
    write(tmp_path / "a.ply", first)
    write(tmp_path / "b.pcd", read(tmp_path / "a.ply"))
    last = read(tmp_path / "b.pcd")
    same_attributes(last, first)
    assert last.metadata["pcd"] == first.metadata["pcd"]
