"""PLY elements other than vertices, and lists of any length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, open_reader, open_writer, read, write
from pdflow.errors import LossWarning, PdflowError
from pdflow.io import Header
from pdflow.io.ply.ascii import decode_ascii, encode_ascii
from pdflow.io.ply.binary import decode_binary, encode_binary
from pdflow.io.ply.header import Element, PlyHeader, Property

PlyFile = Callable[..., Path]

FORMATS = ("ascii", "binary_little_endian", "binary_big_endian")
ORDERS: dict[str, Any] = {"ascii": "=", "binary_little_endian": "<", "binary_big_endian": ">"}
HEAD = "ply\nformat {} 1.0\n"
XYZ = "property float x\nproperty float y\nproperty float z\n"
Same = Callable[[PointCloud, PointCloud], None]


def element_file(tmp_path: Path, format: str, face_first: bool = False) -> Path:
    """A file with vertices, faces of 3 and 4 corners, edges, cameras, and an empty element."""
    f4, i4, u1, f8 = (np.dtype(t) for t in ("f4", "i4", "u1", "f8"))
    vertex = Element("vertex", 4, tuple(Property(n, f4) for n in ("x", "y", "z", "quality")))
    face = Element(
        "face",
        3,
        (
            Property("flags", np.dtype("u2")),
            Property("vertex_indices", i4, u1),
            Property("weight", f8),
            Property("texcoord", f4, np.dtype("u4")),
        ),
    )
    edge = Element("edge", 2, (Property("vertex1", i4), Property("vertex2", i4)))
    camera = Element("camera", 1, (Property("pose", f8, u1),))
    nothing = Element("nothing", 0, (Property("v", u1), Property("w", u1, u1)))
    tables: dict[str, Any] = {
        "vertex": {n: np.arange(4, dtype=f4) + i for i, n in enumerate(("x", "y", "z", "quality"))},
        "face": {
            "flags": np.array([1, 2, 60000], np.uint16),
            "vertex_indices": {
                "counts": np.array([3, 4, 0], np.uint8),
                "values": np.array([0, 1, 2, 0, 1, 2, 3], np.int32),
            },
            "weight": np.array([0.1, np.pi, -1e-300]),
            "texcoord": {
                "counts": np.array([0, 1, 2], np.uint32),
                "values": np.array([0.5, 0.25, 0.1], np.float32),
            },
        },
        "edge": {"vertex1": np.array([0, 1], i4), "vertex2": np.array([2, 3], i4)},
        "camera": {
            "pose": {"counts": np.array([16], np.uint8), "values": np.arange(16.0)},
        },
        "nothing": {
            "v": np.empty(0, u1),
            "w": {"counts": np.empty(0, u1), "values": np.empty(0, u1)},
        },
    }
    elements = [vertex, face, edge, camera, nothing]
    if face_first:
        elements = [face, edge, vertex, camera, nothing]
    path = tmp_path / "elements.ply"
    with path.open("wb") as file:
        file.write(PlyHeader(format, elements).render())
        for e in elements:
            if format == "ascii":
                file.write(encode_ascii(e, tables[e.name]).encode())
            else:
                file.write(encode_binary(e, tables[e.name], ORDERS[format]).tobytes())
    return path


@pytest.mark.parametrize("face_first", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_other_elements_are_kept(
    tmp_path: Path,
    format: str,
    face_first: bool,
    same_tree: Callable[[Any, Any], None],
    same_attributes: Same,
) -> None:
    path = element_file(tmp_path, format, face_first)
    cloud = read(path)
    assert cloud.points.tolist() == [[i, i + 1, i + 2] for i in range(4)]
    assert cloud.attributes["quality"].tolist() == [3, 4, 5, 6]
    elements = cloud.metadata["ply"]["elements"]
    assert list(elements) == ["face", "edge", "camera", "nothing"]
    face = elements["face"]["properties"]
    assert face["vertex_indices"]["values"].tolist() == [0, 1, 2, 0, 1, 2, 3]
    assert face["vertex_indices"]["counts"].tolist() == [3, 4, 0]
    assert face["flags"].tolist() == [1, 2, 60000]
    assert face["weight"].tolist() == [0.1, np.pi, -1e-300]
    assert face["texcoord"]["values"].tolist() == np.float32([0.5, 0.25, 0.1]).tolist()
    write(tmp_path / "again.ply", cloud)
    back = read(tmp_path / "again.ply")
    same_attributes(back, cloud)
    same_tree(back.metadata, cloud.metadata)


def test_elements_without_properties(
    tmp_path: Path, same_tree: Callable[[Any, Any], None], ply_file: PlyFile
) -> None:
    for format in FORMATS:
        text = HEAD.format(format) + f"element odd 3\nelement vertex 1\n{XYZ}end_header\n"
        data = b"0 0 0\n" if format == "ascii" else bytes(12)
        cloud = read(ply_file(text, data))
        assert cloud.metadata["ply"]["elements"] == {"odd": {"count": 3, "properties": {}}}
        write(tmp_path / "b.ply", cloud)
        same_tree(read(tmp_path / "b.ply").metadata, cloud.metadata)


def test_known_bytes_of_a_mixed_element(same_tree: Callable[[Any, Any], None]) -> None:
    element = Element(
        "face", 2, (Property("v", np.dtype("i2"), np.dtype("u1")), Property("s", np.dtype("u2")))
    )
    data = b"\x02\x00\x01\x00\x02\x01\x00" + b"\x01\x00\x05\x00\x09"
    table, end = decode_binary(b"??" + data, 2, element, ">", Path("a"))
    assert end == 2 + len(data)
    assert table["v"]["counts"].tolist() == [2, 1]
    assert table["v"]["values"].tolist() == [1, 2, 5]
    assert table["s"].tolist() == [256, 9]
    assert encode_binary(element, table, ">").tobytes() == data
    assert encode_ascii(element, table) == "2 1 2 256\n1 5 9\n"
    again = decode_ascii(["2 1 2 256\n", "\n", "1 5 9\n"], 1, element, Path("a"))
    same_tree(again, table)


def test_faces_of_a_cloud_with_removed_points_are_left_out(
    tmp_path: Path, same_attributes: Same
) -> None:
    cloud = read(element_file(tmp_path, "binary_little_endian"))
    with pytest.warns(LossWarning, match="element 'face' .*, element 'edge'"):
        write(tmp_path / "less.ply", cloud[:3])
    back = read(tmp_path / "less.ply")
    assert list(back.metadata["ply"]["elements"]) == ["camera", "nothing"]
    header = Header(None, Header.of(cloud).fields, cloud.metadata)
    with (
        pytest.warns(LossWarning, match="element 'face'"),
        open_writer(tmp_path / "stream.ply", header) as writer,
    ):
        writer.write(cloud[:2])
    streamed = read(tmp_path / "stream.ply")
    same_attributes(streamed, cloud[:2])
    assert list(streamed.metadata["ply"]["elements"]) == ["camera", "nothing"]


@pytest.mark.parametrize("names", [("vertex1", "vertex2"), ("v1", "v2"), ("vertex_index", "n")])
def test_elements_that_refer_to_removed_points(
    tmp_path: Path, names: tuple[str, str], ply_file: PlyFile
) -> None:
    edges = "".join(f"property int {name}\n" for name in names)
    text = HEAD.format("ascii") + f"element vertex 3\n{XYZ}element edge 1\n{edges}"
    cloud = read(ply_file(f"{text}end_header\n0 0 0\n1 1 1\n2 2 2\n0 2\n"))
    with pytest.warns(LossWarning, match="element 'edge'"):
        write(tmp_path / "less.ply", cloud[:2])
    assert "elements" not in read(tmp_path / "less.ply").metadata["ply"]


@pytest.mark.parametrize("format", FORMATS)
def test_lists_on_vertices(
    tmp_path: Path, format: str, same_tree: Callable[[Any, Any], None], ply_file: PlyFile
) -> None:
    text = HEAD.format("ascii") + (
        f"element vertex 3\n{XYZ}property list uchar short equal\n"
        "property list ushort double ragged\nproperty uchar red\nend_header\n"
        "0 0 0 2 10 20 1 0.5 7\n1 1 1 2 30 40 0 8\n2 2 2 2 50 60 2 0.25 0.125 9\n"
    )
    cloud = read(ply_file(text))
    assert cloud.attributes["equal"].tolist() == [[10, 20], [30, 40], [50, 60]]
    assert cloud.attributes["equal"].dtype == np.int16
    assert cloud.attributes["red"].tolist() == [7, 8, 9]
    assert cloud.metadata["ply"]["lists"] == {"equal": "uchar"}
    assert cloud.metadata["ply"]["ragged"]["ragged"]["values"].tolist() == [0.5, 0.25, 0.125]
    cloud.metadata["ply"]["format"] = format
    write(tmp_path / "b.ply", cloud)
    assert b"property list uchar short equal" in (tmp_path / "b.ply").read_bytes()
    back = read(tmp_path / "b.ply")
    same_tree(back.attributes, cloud.attributes)
    same_tree(back.metadata, cloud.metadata)
    with open_reader(tmp_path / "b.ply") as reader:
        chunks = list(reader.chunks(2))
    assert [len(chunk) for chunk in chunks] == [2, 1]
    assert chunks[1].attributes["equal"].tolist() == [[50, 60]]
    with pytest.warns(LossWarning, match="list 'ragged' .its points have changed"):
        write(tmp_path / "c.ply", cloud[1:])
    assert read(tmp_path / "c.ply").attributes["equal"].tolist() == [[30, 40], [50, 60]]


def test_ragged_lists_need_their_points(
    tmp_path: Path, same_tree: Callable[[Any, Any], None]
) -> None:
    lists = {"counts": np.array([1, 0], np.uint8), "values": np.array([7], np.int32)}
    metadata = {"ply": {"vertices": 2, "ragged": {"r": lists}}}
    path = tmp_path / "a.ply"

    def write_one() -> None:
        with open_writer(path, Header(2, {}, metadata)) as writer:
            writer.write(PointCloud([[0, 0, 0]]))

    with pytest.raises(PdflowError, match="1 points were written, but 2 have lists"):
        write_one()
    with open_writer(path, Header(2, {}, metadata)) as writer:
        writer.write(PointCloud([[0, 0, 0]]))
        writer.write(PointCloud([[1, 1, 1]]))
    same_tree(read(path).metadata["ply"]["ragged"], {"r": lists})
