"""PCD: all three kinds of data, packed colours, COUNT, padding, organised clouds."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, read, write
from pdflow.errors import LossWarning, PdflowError
from pdflow.io.pcd.lzf import compress, decompress

Same = Callable[[PointCloud, PointCloud], None]
KINDS = ("ascii", "binary", "binary_compressed")
RNG = np.random.default_rng(0)


def header(**changes: str | None) -> bytes:
    """A header for two points of x, y, z with lines changed, or left out where None."""
    lines: dict[str, str | None] = {
        "VERSION": "0.7",
        "FIELDS": "x y z",
        "SIZE": "4 4 4",
        "TYPE": "F F F",
        "COUNT": "1 1 1",
        "WIDTH": "2",
        "HEIGHT": "1",
        "VIEWPOINT": "0 0 0 1 0 0 0",
        "POINTS": "2",
        "DATA": "ascii",
        **changes,
    }
    text = "".join(f"{key} {value}\n" for key, value in lines.items() if value is not None)
    return b"# .PCD v.7 - Point Cloud Data file format\n" + text.encode()


def pcd_file(folder: Path, data: bytes) -> Path:
    path = folder / "cloud.pcd"
    path.write_bytes(data)
    return path


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
def test_coordinates_are_float32_only_where_that_is_exact(tmp_path: Path, kind: str) -> None:
    utm = np.array([[5e6 + 1e-4, 4e5 + 1e-4, 0.1], [np.nan, 1, 2]])
    for points, size in ((utm, b"8 8 8"), (utm.astype(np.float32), b"4 4 4")):
        write(tmp_path / "a.pcd", PointCloud(points, None, {"pcd": {"data": kind}}))
        assert b"\nSIZE " + size + b"\n" in (tmp_path / "a.pcd").read_bytes()
        np.testing.assert_array_equal(read(tmp_path / "a.pcd").points, points.astype(np.float64))


# Files from other software


def test_padding_and_counts_in_every_kind(tmp_path: Path) -> None:
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
        cloud = read(pcd_file(tmp_path, head + body))
        assert cloud.points.tolist() == [[0.1, 1, 3], [0.2, 2, 4]]
        assert {n: (v.dtype.name, v.tolist()) for n, v in cloud.attributes.items()} == {
            "tag": ("uint8", [7, 8]),
            "pair": ("uint8", [[1, 2], [3, 4]]),
            "id": ("int64", [-5, 2**62]),
        }


def test_two_padding_fields_and_repeated_names(tmp_path: Path) -> None:
    changes = {"SIZE": "4 4 4 4 4 4 4", "TYPE": "F F F F F F F", "COUNT": "1 1 1 1 1 1 1"}
    head = header(FIELDS="x _ y _ z a a", **changes)
    cloud = read(pcd_file(tmp_path, head + b"1 9 2 9 3 4 5\n1 9 2 9 3 6 7\n"))
    assert cloud.points[0].tolist() == [1, 2, 3]
    assert {n: v.tolist() for n, v in cloud.attributes.items()} == {"a": [4, 6], "a_": [5, 7]}


def test_the_oldest_files(tmp_path: Path) -> None:
    text = b"# .PCD v.5\n# hello\nVERSION .5\nCOLUMNS x y z\nPOINTS 2\nDATA ascii\n1 2 3\n4 5 nan\n"
    cloud = read(pcd_file(tmp_path, text))
    np.testing.assert_array_equal(cloud.points, [[1, 2, 3], [4, 5, np.nan]])
    assert cloud.metadata["comments"] == ["hello"]
    assert (cloud.metadata["pcd"]["width"], cloud.metadata["pcd"]["height"]) == (2, 1)


def test_comments_that_are_no_utf8(tmp_path: Path) -> None:
    data = header().replace(b"VERSION", b"# H\xf6he\nVERSION") + b"1 2 3\n4 5 6\n"
    assert read(pcd_file(tmp_path, data)).metadata["comments"] == ["Höhe"]


# Packed colours

RED_AND_CLEAR = np.array([0x00FF0000, 0x000102FE], "<u4")
OPAQUE = np.array([0xFFFF0000, 0x800102FE], "<u4")  # the first is NaN as a float


def packed_file(folder: Path, bits: Any, name: str, code: str, kind: str = "binary") -> Path:
    head = header(
        FIELDS=f"x y z {name}", SIZE="4 4 4 4", TYPE=f"F F F {code}", COUNT="1 1 1 1", DATA=kind
    )
    if kind == "ascii":
        return pcd_file(folder, head + b"".join(b"1 2 3 %s\n" % word for word in bits))
    rows = np.zeros(2, [("xyz", "<f4", 3), ("rgb", "<u4")])
    rows["rgb"] = bits
    return pcd_file(folder, head + rows.tobytes())


@pytest.mark.parametrize("code", ["F", "U", "I"])
@pytest.mark.parametrize("name", ["rgb", "rgba"])
@pytest.mark.parametrize("bits", [RED_AND_CLEAR, OPAQUE])
def test_packed_colours_are_written_back_the_same(
    tmp_path: Path, bits: Any, name: str, code: str
) -> None:
    path = packed_file(tmp_path, bits, name, code)
    cloud = read(path)
    assert cloud.attributes["colors"].tolist() == [[255, 0, 0], [1, 2, 254]]
    assert cloud.attributes["colors"].dtype == np.uint8
    if name == "rgba" or bits is OPAQUE:
        assert cloud.attributes["alpha"].tolist() == (bits >> 24).tolist()
    else:
        assert list(cloud.attributes) == ["colors"]
    write(tmp_path / "b.pcd", cloud)
    assert (tmp_path / "b.pcd").read_bytes() == path.read_bytes().replace(b"v.7", b"v0.7")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("F", [b"2.3418052e-38", b"9.2908891e-41"]),
        ("F", [b"16711680", b"66302"]),  # an integer where a float belongs
        ("U", [b"16711680", b"66302"]),
        ("I", [b"16711680", b"66302"]),
    ],
)
def test_packed_colours_in_text(tmp_path: Path, code: str, words: list[bytes]) -> None:
    cloud = read(packed_file(tmp_path, words, "rgb", code, "ascii"))
    assert cloud.attributes["colors"].tolist() == [[255, 0, 0], [1, 2, 254]]
    write(tmp_path / "b.pcd", cloud)
    assert read(tmp_path / "b.pcd").attributes["colors"].tolist() == [[255, 0, 0], [1, 2, 254]]


@pytest.mark.parametrize("code", ["F", "U", "I"])
@pytest.mark.parametrize("name", ["rgb", "rgba"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_bits_of_packed_colours_survive_every_kind(
    tmp_path: Path, kind: str, name: str, code: str, same_attributes: Same
) -> None:
    colors, alpha = RNG.integers(0, 256, (500, 3), np.uint8), RNG.integers(0, 256, 500, np.uint8)
    pcd = {"data": kind, "rgb": [name, code]}
    for attributes in ({"colors": colors}, {"colors": colors, "alpha": alpha}):
        cloud = PointCloud(RNG.normal(size=(500, 3)), attributes, {"pcd": pcd})
        write(tmp_path / "a.pcd", cloud)
        same_attributes(read(tmp_path / "a.pcd"), cloud)


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


# The header's own entries


def test_an_organised_cloud_keeps_its_shape_until_points_go(tmp_path: Path) -> None:
    cloud = rich_cloud("binary")
    for part, shape in ((cloud, (4, 3)), (cloud[:11], (11, 1))):
        write(tmp_path / "a.pcd", part)
        pcd = read(tmp_path / "a.pcd").metadata["pcd"]
        assert (pcd["width"], pcd["height"]) == shape


@pytest.mark.parametrize("viewpoint", [None, "here", [1, 2], ["a"] * 7])
def test_nonsense_in_the_metadata_does_not_break_the_header(tmp_path: Path, viewpoint: Any) -> None:
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


def test_compressed_data_are_stored_column_after_column(tmp_path: Path) -> None:
    points = np.arange(12, dtype=np.float32).reshape(4, 3)
    weights = np.arange(8, dtype=np.uint8).reshape(4, 2)
    cloud = PointCloud(points, {"w": weights}, {"pcd": {"data": "binary_compressed"}})
    write(tmp_path / "a.pcd", cloud)
    body = (tmp_path / "a.pcd").read_bytes().partition(b"DATA binary_compressed\n")[2]
    n_packed, n_bytes = struct.unpack("<II", body[:8])
    assert len(body) == 8 + n_packed
    assert decompress(body[8:], n_bytes) == points.T.tobytes() + weights.tobytes()


# Damaged files

TEXT = b"1 2 3\n4 5 6\n"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"ply\n", "line 1 starts with 'ply'"),
        (b"# .PCD v.7\nVERSION .7\n", "ends at line 3 without DATA"),
        (header(VERSION="0.9") + TEXT, "VERSION in the PCD header is '0.9'"),
        (header(DATA="zip") + TEXT, "DATA in the PCD header is 'zip'"),
        (header(FIELDS=None) + TEXT, "FIELDS in the PCD header is 'missing'"),
        (header(FIELDS="x y w") + TEXT, "no field z, only x, y, w"),
        (header(FIELDS="x y") + TEXT, "SIZE in the PCD header is '4 4 4' and not 2"),
        (header(SIZE="4 4 3") + TEXT, "TYPE in the PCD header is 'F F F'"),
        (header(SIZE="4 4 four") + TEXT, "SIZE in the PCD header"),
        (header(TYPE="F F Q") + TEXT, "TYPE in the PCD header"),
        (header(COUNT="1 1 0") + TEXT, "COUNT in the PCD header"),
        (header(WIDTH="two") + TEXT, "WIDTH in the PCD header"),
        (header(WIDTH="-2") + TEXT, "WIDTH in the PCD header"),
        (header(WIDTH=None, POINTS=None) + TEXT, "WIDTH in the PCD header is 'missing'"),
        (header(POINTS="3") + TEXT, "POINTS in the PCD header is '3' and not WIDTH times HEIGHT"),
        (header(VIEWPOINT="0 0 0") + TEXT, "VIEWPOINT in the PCD header"),
        (header(WIDTH="0", POINTS="0") + TEXT, "holds no points"),
        (header(WIDTH="3", POINTS="3") + TEXT, "promises 3 points .3 rows. but the file holds 2"),
        (header(WIDTH="1", POINTS="1") + TEXT, "promises 1 points .1 rows. but the file holds 2"),
        (header(WIDTH=str(10**15), POINTS=None) + TEXT, "3000000000000000 values"),
        (header(COUNT=f"1 1 {10**15}") + TEXT, "promises 2 points"),
        (header() + b"1 2 3\n4 five 6\n", "line 13: 'five' is not a number"),
        (header() + b"1 2 3\n4 5\n", "line 13: 2 values where 3 belong"),
        (header(TYPE="F F U", SIZE="4 4 1") + b"1 2 3\n4 5 256\n", "field z do not fit uint8"),
        (header(DATA="binary") + bytes(23), "24 bytes. but the file holds 23"),
        (header(DATA="binary") + bytes(36), "24 bytes. but the file holds 36"),
        (header(DATA="binary", WIDTH=str(10**15), POINTS=None) + bytes(24), "promises 10{15}"),
        (header(DATA="binary_compressed"), "24 bytes. but the file holds 0"),
        (header(DATA="binary_compressed") + struct.pack("<II", 9, 24) + bytes(8), "truncated"),
        (header(DATA="binary_compressed") + struct.pack("<II", 4, 25) + bytes(4), "holds 25"),
        (header(DATA="binary_compressed") + struct.pack("<II", 4, 24) + bytes(4), "LZF data"),
    ],
)
def test_damaged_files_are_told_with_their_name(tmp_path: Path, data: bytes, expected: str) -> None:
    path = pcd_file(tmp_path, data)
    with pytest.raises(PdflowError, match=expected) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_a_few_bytes_after_binary_points_do_no_harm(tmp_path: Path) -> None:
    assert len(read(pcd_file(tmp_path, header(DATA="binary") + bytes(24) + b"\n"))) == 2


# Real files


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


def test_zeros_that_fill_the_last_page_are_no_points(tmp_path: Path) -> None:
    cloud = PointCloud(np.arange(12.0).reshape(4, 3))
    path = tmp_path / "page.pcd"
    write(path, cloud)
    whole = path.read_bytes()
    left_over = 4096 - whole.index(b"DATA binary\n") - len(b"DATA binary\n")
    path.write_bytes(whole + bytes(left_over))
    np.testing.assert_array_equal(read(path).points, cloud.points)
    path.write_bytes(whole + bytes(left_over - 1) + b"\x01")
    with pytest.raises(PdflowError, match="the header promises 4 points"):
        read(path)
