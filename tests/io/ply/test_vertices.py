"""PLY vertices: every type, line end and name, and the digits of coordinates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, read, write
from pdflow.errors import LossWarning
from pdflow.io.ply.header import TYPES

PlyFile = Callable[..., Path]

FORMATS = ("ascii", "binary_little_endian", "binary_big_endian")
ORDERS: dict[str, Any] = {"ascii": "=", "binary_little_endian": "<", "binary_big_endian": ">"}
HEAD = "ply\nformat {} 1.0\n"
XYZ = "property float x\nproperty float y\nproperty float z\n"
Same = Callable[[PointCloud, PointCloud], None]


@pytest.mark.parametrize("format", FORMATS)
def test_everything_comes_back(
    tmp_path: Path, format: str, same_attributes: Same, example_cloud: PointCloud
) -> None:
    cloud = example_cloud
    cloud.metadata["ply"] = {"format": format, "obj_info": ["num_cols 3"]}
    write(tmp_path / "a.ply", cloud)
    assert f"format {format} 1.0".encode() in (tmp_path / "a.ply").read_bytes()
    back = read(tmp_path / "a.ply")
    same_attributes(back, cloud)
    assert back.metadata["ply"] == {
        "format": format,
        "obj_info": ["num_cols 3"],
        "coordinates": "double",
    }
    del back.metadata["ply"], cloud.metadata["ply"]
    assert back.metadata == cloud.metadata


def test_plain_cloud_needs_no_comments(tmp_path: Path) -> None:
    colors = np.array([[1, 2, 3], [4, 5, 6]], np.uint8)
    write(tmp_path / "a.ply", PointCloud([[0, 1, 2], [3, 4, 5]], {"colors": colors}))
    header = (tmp_path / "a.ply").read_bytes().split(b"end_header\n")[0].decode()
    assert header == (
        "ply\nformat binary_little_endian 1.0\nelement vertex 2\n"
        "property float x\nproperty float y\nproperty float z\n"
        "property uchar red\nproperty uchar green\nproperty uchar blue\n"
    )


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("spelling", list(TYPES))
def test_every_type_name(format: str, spelling: str, ply_file: PlyFile) -> None:
    dtype = TYPES[spelling]
    text = HEAD.format(format) + f"element vertex 2\nproperty {spelling} v\n{XYZ}end_header\n"
    values = np.array([1, 100], dtype)
    if format == "ascii":
        data = b"1 0 0 0\n100 1.5 2 3\n"
    else:
        order = ORDERS[format]
        row = np.dtype([("v", dtype.newbyteorder(order)), ("p", f"{order}f4", (3,))])
        data = np.array([(1, (0, 0, 0)), (100, (1.5, 2, 3))], row).tobytes()
    cloud = read(ply_file(text, data))
    assert cloud.points.tolist() == [[0, 0, 0], [1.5, 2, 3]]
    assert cloud.attributes["v"].dtype == dtype
    np.testing.assert_array_equal(cloud.attributes["v"], values)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("format", FORMATS)
def test_any_line_end_and_property_order(end: str, format: str, ply_file: PlyFile) -> None:
    text = HEAD.format(format) + (
        "comment  two blanks \nobj_info made by a scanner\nelement vertex 2\n"
        "property uchar blue\nproperty double z\nproperty uchar red\nproperty short x\n"
        "property uchar green\nproperty float y\nend_header\n"
    )
    rows = [(3, 0.5, 1, -7, 2, 0.25), (6, 1e300, 4, 7, 5, -1)]
    if format == "ascii":
        data = "".join(" ".join(map(str, row)) + end for row in rows).encode()
    else:
        o = ORDERS[format]
        data = np.array(rows, f"u1,{o}f8,u1,{o}i2,u1,{o}f4").tobytes()
    cloud = read(ply_file(text.replace("\n", end), data))
    assert cloud.points.tolist() == [[-7, 0.25, 0.5], [7, -1, 1e300]]
    assert cloud.attributes["colors"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert cloud.attributes["colors"].dtype == np.uint8
    assert cloud.metadata["comments"] == ["two blanks"]
    assert cloud.metadata["ply"]["obj_info"] == ["made by a scanner"]


@pytest.mark.parametrize(
    ("points", "expected"),
    [([[0.5, 1, 2]], "float"), ([[0.1, 1, 2]], "double"), ([[5e6 + 0.0001, 0, 0]], "double")],
)
def test_coordinates_are_no_wider_than_needed(tmp_path: Path, points: Any, expected: str) -> None:
    write(tmp_path / "a.ply", PointCloud(points))
    back = read(tmp_path / "a.ply")
    assert back.metadata["ply"]["coordinates"] == expected
    assert back.points.tolist() == points


def test_coordinate_type_of_the_file_is_kept(tmp_path: Path) -> None:
    for kind, other in (("double", 0.5), ("short", 7), ("float", 0.5)):
        cloud = PointCloud([[1, 2, 3]], metadata={"ply": {"coordinates": kind}})
        write(tmp_path / "a.ply", cloud)
        back = read(tmp_path / "a.ply")
        assert back.metadata["ply"]["coordinates"] == kind
        back.points[0, 0] = other
        write(tmp_path / "a.ply", back)
        assert read(tmp_path / "a.ply").metadata["ply"]["coordinates"] == kind
        back.points[0, 0] = 0.1
        write(tmp_path / "a.ply", back)
        assert read(tmp_path / "a.ply").points.tolist() == [[0.1, 2, 3]]


def test_text_coordinates_keep_their_digits(tmp_path: Path, ply_file: PlyFile) -> None:
    text = HEAD.format("ascii") + f"element vertex 1\n{XYZ}end_header\n500000.1234 5e6 0.1\n"
    cloud = read(ply_file(text))
    assert cloud.points.tolist() == [[500000.1234, 5e6, 0.1]]
    write(tmp_path / "b.ply", cloud)
    assert b"property float x" in (tmp_path / "b.ply").read_bytes()
    assert read(tmp_path / "b.ply").points.tolist() == cloud.points.tolist()


def test_text_coordinates_keep_their_digits_beside_lists(tmp_path: Path, ply_file: PlyFile) -> None:
    lists = "property list uchar int near\n"
    text = HEAD.format("ascii") + f"element vertex 2\n{XYZ}{lists}end_header\n"
    path = ply_file(text + "500000.1234 5e6 0.1 1 7\n1 2 3 2 8 9\n")
    cloud = read(path)
    assert cloud.points.tolist() == [[500000.1234, 5e6, 0.1], [1, 2, 3]]
    write(tmp_path / "b.ply", cloud)
    assert read(tmp_path / "b.ply").points.tolist() == cloud.points.tolist()


def test_odd_metadata_and_attributes_are_named_in_one_warning(tmp_path: Path) -> None:
    cloud = PointCloud(
        [[0, 0, 0]],
        {"label": np.array(["tree"]), "wave": np.array([1j]), "ok": np.array([1])},
        {
            "object": object(),
            "ply": {
                "elements": {
                    "bad": {"count": 2, "properties": {"v": np.zeros(3)}},
                    "two words": {"count": 0, "properties": {}},
                    "vertex": {"count": 0, "properties": {}},
                    "int64": {"count": 1, "properties": {"v": np.zeros(1, np.int64)}},
                    "none": None,
                }
            },
        },
    )
    with pytest.warns(LossWarning) as caught:
        write(tmp_path / "a.ply", cloud)
    (warning,) = caught
    for word in ("label", "wave", "object", "bad", "two words", "vertex", "int64", "none"):
        assert repr(word) in str(warning.message)
    back = read(tmp_path / "a.ply")
    assert back.attributes["ok"].dtype == np.int64
    assert list(back.attributes) == ["ok"]


@pytest.mark.parametrize(
    "ply",
    [
        {"format": "nonsense", "coordinates": "nonsense", "obj_info": "x", "lists": 3},
        {"format": 1, "obj_info": ["a\nb"], "ragged": {"r": 1}},
        {"mine": {"a": [1, 2]}},
    ],
)
def test_metadata_of_ply_that_no_header_holds_survives(tmp_path: Path, ply: Any) -> None:
    write(tmp_path / "a.ply", PointCloud([[0, 0, 0]], metadata={"ply": ply}))
    back = read(tmp_path / "a.ply").metadata["ply"]
    assert back["format"] == "binary_little_endian"
    kept = {k: v for k, v in ply.items() if k not in ("format", "coordinates")}
    assert {k: back[k] for k in kept} == kept


def test_names_that_no_header_holds_survive(tmp_path: Path, same_attributes: Same) -> None:
    names = ["x", "red", "two words", "", "Höhe", "a_0", "a_1", "list"]
    attributes = {name: np.full(2, i, np.uint8) for i, name in enumerate(names)}
    attributes["colors"] = np.zeros((2, 3), np.uint8)
    cloud = PointCloud(np.zeros((2, 3)), attributes)
    write(tmp_path / "a.ply", cloud)
    same_attributes(read(tmp_path / "a.ply"), cloud)


def test_duplicate_properties_and_blanks_in_names(
    tmp_path: Path, same_attributes: Same, ply_file: PlyFile
) -> None:
    text = HEAD.format("ascii") + (
        f"element vertex 1\n{XYZ}property float v\nproperty float v\n"
        "property float Original cloud index\nend_header\n0 0 0 1 2 3\n"
    )
    cloud = read(ply_file(text))
    values = {name: column.tolist() for name, column in cloud.attributes.items()}
    assert values == {"v": [1], "v_": [2], "Original cloud index": [3]}
    write(tmp_path / "b.ply", cloud)
    same_attributes(read(tmp_path / "b.ply"), cloud)


def test_latin1_comments_and_missing_last_line_end(tmp_path: Path) -> None:
    content = f"comment H\xf6he\nelement vertex 2\n{XYZ}end_header\n0 0 0\n1 1 1"
    (tmp_path / "a.ply").write_bytes((HEAD.format("ascii") + content).encode("latin-1"))
    cloud = read(tmp_path / "a.ply")
    assert cloud.metadata["comments"] == ["Höhe"]
    assert len(cloud) == 2


@pytest.mark.data
@pytest.mark.parametrize("name", ["lamppost.pcd", "milk.pcd", "simple.laz", "simple.copc.laz"])
@pytest.mark.parametrize("target", ["a.ply", "a.xyz"])
def test_real_files_survive(
    tmp_path: Path,
    shared: Path,
    name: str,
    target: str,
    same_tree: Callable[[Any, Any], None],
    same_attributes: Same,
) -> None:
    source = shared / "data" / "real" / name
    pytest.importorskip("lazrs" if source.suffix == ".laz" else "numpy")
    cloud = read(source)
    write(tmp_path / target, cloud)
    through = read(tmp_path / target)
    same_attributes(through, cloud)
    same_tree({key: through.metadata[key] for key in cloud.metadata}, cloud.metadata)
    write(tmp_path / f"back{source.suffix}", through)
    back = read(tmp_path / f"back{source.suffix}")
    same_attributes(back, cloud)
