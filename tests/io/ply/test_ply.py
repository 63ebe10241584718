"""PLY: every kind of header and row, chunks, other elements, damaged files."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pdflow import PointCloud, TriangleMesh, open_reader, open_writer, read, read_mesh, write
from pdflow.errors import LossWarning, PdflowError
from pdflow.io import Field, Header, write_mesh
from pdflow.io.ply.ascii import decode_ascii, encode_ascii
from pdflow.io.ply.binary import decode_binary, encode_binary
from pdflow.io.ply.header import LINE_LIMIT, TYPES, Element, PlyHeader, Property

FORMATS = ("ascii", "binary_little_endian", "binary_big_endian")
ORDERS: dict[str, Any] = {"ascii": "=", "binary_little_endian": "<", "binary_big_endian": ">"}


def assert_same(left: PointCloud, right: PointCloud) -> None:
    np.testing.assert_array_equal(left.points, right.points)
    assert list(left.attributes) == list(right.attributes)
    for name, values in left.attributes.items():
        other = right.attributes[name]
        assert (values.dtype, values.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(values, other)


def assert_same_tree(left: Any, right: Any) -> None:
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    elif isinstance(left, dict):
        assert set(left) == set(right)
        for key in left:
            assert_same_tree(left[key], right[key])
    else:
        assert left == right


def assert_read_or_refused(path: Path) -> None:
    try:
        message = f"{len(read(path))} points"
    except PdflowError as error:
        message = str(error)
    assert message
    assert "\n" not in message


def example_cloud(count: int = 20) -> PointCloud:
    rng = np.random.default_rng(0)
    return PointCloud(
        rng.normal((5e5, 5e6, 100), size=(count, 3)),
        {
            "intensity": rng.integers(0, 60000, count).astype(np.uint16),
            "colors": rng.integers(0, 256, (count, 3)).astype(np.uint8),
            "alpha": rng.integers(0, 256, count).astype(np.uint8),
            "normals": rng.normal(size=(count, 3)).astype(np.float32),
            "gps_time": rng.uniform(0, 1e9, count),
            "inside": rng.integers(0, 2, count).astype(bool),
            "id": rng.integers(-(2**40), 2**40, count),
            "half": rng.normal(size=count).astype(np.float16),
            "features": rng.normal(size=(count, 5)).astype(np.float32),
        },
        {"crs": "EPSG:25832", "comments": ["by hand", "twice"], "las": {"vlr": b"\0\1" * 999}},
    )


def write_text(path: Path, text: str, data: bytes = b"") -> Path:
    path.write_bytes(text.encode() + data)
    return path


HEAD = "ply\nformat {} 1.0\n"
XYZ = "property float x\nproperty float y\nproperty float z\n"


@pytest.mark.parametrize("format", FORMATS)
def test_everything_comes_back(tmp_path: Path, format: str) -> None:
    cloud = example_cloud()
    cloud.metadata["ply"] = {"format": format, "obj_info": ["num_cols 3"]}
    write(tmp_path / "a.ply", cloud)
    assert f"format {format} 1.0".encode() in (tmp_path / "a.ply").read_bytes()
    back = read(tmp_path / "a.ply")
    assert_same(back, cloud)
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
def test_every_type_name(tmp_path: Path, format: str, spelling: str) -> None:
    dtype = TYPES[spelling]
    text = HEAD.format(format) + f"element vertex 2\nproperty {spelling} v\n{XYZ}end_header\n"
    values = np.array([1, 100], dtype)
    if format == "ascii":
        data = b"1 0 0 0\n100 1.5 2 3\n"
    else:
        order = ORDERS[format]
        row = np.dtype([("v", dtype.newbyteorder(order)), ("p", f"{order}f4", (3,))])
        data = np.array([(1, (0, 0, 0)), (100, (1.5, 2, 3))], row).tobytes()
    cloud = read(write_text(tmp_path / "a.ply", text, data))
    assert cloud.points.tolist() == [[0, 0, 0], [1.5, 2, 3]]
    assert cloud.attributes["v"].dtype == dtype
    np.testing.assert_array_equal(cloud.attributes["v"], values)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("format", FORMATS)
def test_any_line_end_and_property_order(tmp_path: Path, end: str, format: str) -> None:
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
    cloud = read(write_text(tmp_path / "a.ply", text.replace("\n", end), data))
    assert cloud.points.tolist() == [[-7, 0.25, 0.5], [7, -1, 1e300]]
    assert cloud.attributes["colors"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert cloud.attributes["colors"].dtype == np.uint8
    assert cloud.metadata["comments"] == ["two blanks"]
    assert cloud.metadata["ply"]["obj_info"] == ["made by a scanner"]


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
def test_other_elements_are_kept(tmp_path: Path, format: str, face_first: bool) -> None:
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
    assert_same(back, cloud)
    assert_same_tree(back.metadata, cloud.metadata)


def test_elements_without_properties(tmp_path: Path) -> None:
    for format in FORMATS:
        text = HEAD.format(format) + f"element odd 3\nelement vertex 1\n{XYZ}end_header\n"
        data = b"0 0 0\n" if format == "ascii" else bytes(12)
        cloud = read(write_text(tmp_path / "a.ply", text, data))
        assert cloud.metadata["ply"]["elements"] == {"odd": {"count": 3, "properties": {}}}
        write(tmp_path / "b.ply", cloud)
        assert_same_tree(read(tmp_path / "b.ply").metadata, cloud.metadata)


def test_known_bytes_of_a_mixed_element() -> None:
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
    assert_same_tree(again, table)


def test_faces_of_a_cloud_that_lost_points_are_named_not_written(tmp_path: Path) -> None:
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
    assert_same(streamed, cloud[:2])
    assert list(streamed.metadata["ply"]["elements"]) == ["camera", "nothing"]


@pytest.mark.parametrize("names", [("vertex1", "vertex2"), ("v1", "v2"), ("vertex_index", "n")])
def test_elements_that_refer_to_lost_points(tmp_path: Path, names: tuple[str, str]) -> None:
    edges = "".join(f"property int {name}\n" for name in names)
    text = HEAD.format("ascii") + f"element vertex 3\n{XYZ}element edge 1\n{edges}"
    cloud = read(write_text(tmp_path / "a.ply", f"{text}end_header\n0 0 0\n1 1 1\n2 2 2\n0 2\n"))
    with pytest.warns(LossWarning, match="element 'edge'"):
        write(tmp_path / "less.ply", cloud[:2])
    assert "elements" not in read(tmp_path / "less.ply").metadata["ply"]


@pytest.mark.parametrize("format", FORMATS)
def test_lists_on_vertices(tmp_path: Path, format: str) -> None:
    text = HEAD.format("ascii") + (
        f"element vertex 3\n{XYZ}property list uchar short equal\n"
        "property list ushort double ragged\nproperty uchar red\nend_header\n"
        "0 0 0 2 10 20 1 0.5 7\n1 1 1 2 30 40 0 8\n2 2 2 2 50 60 2 0.25 0.125 9\n"
    )
    cloud = read(write_text(tmp_path / "a.ply", text))
    assert cloud.attributes["equal"].tolist() == [[10, 20], [30, 40], [50, 60]]
    assert cloud.attributes["equal"].dtype == np.int16
    assert cloud.attributes["red"].tolist() == [7, 8, 9]
    assert cloud.metadata["ply"]["lists"] == {"equal": "uchar"}
    assert cloud.metadata["ply"]["ragged"]["ragged"]["values"].tolist() == [0.5, 0.25, 0.125]
    cloud.metadata["ply"]["format"] = format
    write(tmp_path / "b.ply", cloud)
    assert b"property list uchar short equal" in (tmp_path / "b.ply").read_bytes()
    back = read(tmp_path / "b.ply")
    assert_same_tree(back.attributes, cloud.attributes)
    assert_same_tree(back.metadata, cloud.metadata)
    with open_reader(tmp_path / "b.ply") as reader:
        chunks = list(reader.chunks(2))
    assert [len(chunk) for chunk in chunks] == [2, 1]
    assert chunks[1].attributes["equal"].tolist() == [[50, 60]]
    with pytest.warns(LossWarning, match="list 'ragged' of other points"):
        write(tmp_path / "c.ply", cloud[1:])
    assert read(tmp_path / "c.ply").attributes["equal"].tolist() == [[30, 40], [50, 60]]


@pytest.mark.parametrize("size", [1, 7, 20, 1000])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("known", [True, False])
def test_chunks(tmp_path: Path, size: int, format: str, known: bool) -> None:
    cloud = example_cloud()
    cloud.metadata["ply"] = {"format": format, "coordinates": "double"}
    header = Header.of(cloud)
    header = Header(len(cloud) if known else None, header.fields, header.metadata)
    with open_writer(tmp_path / "a.ply", header) as writer:
        for start in range(0, len(cloud), size):
            writer.write(cloud[start : start + size])
    with open_reader(tmp_path / "a.ply") as reader:
        assert reader.header.count == len(cloud)
        assert reader.header.fields == header.fields
        for _ in range(2):
            chunks = list(reader.chunks(size))
            assert [len(chunk) for chunk in chunks] == [
                min(size, len(cloud) - start) for start in range(0, len(cloud), size)
            ]
            assert_same(PointCloud.concatenate(chunks), cloud)
            assert_same_tree(chunks[-1].metadata, cloud.metadata)


def test_fewer_points_than_announced(tmp_path: Path) -> None:
    cloud = example_cloud()
    with open_writer(tmp_path / "a.ply", Header.of(cloud)) as writer:
        writer.write(cloud[:7])
    assert_same(read(tmp_path / "a.ply"), cloud[:7])


def test_header_lines_stay_short_enough_for_other_parsers(tmp_path: Path) -> None:
    cloud = example_cloud()
    cloud.metadata["comments"] = ["long " * 300 + "."]
    with open_writer(tmp_path / "a.ply", Header.of(cloud)) as writer:
        writer.write(cloud)
    header = (tmp_path / "a.ply").read_bytes().split(b"end_header\n")[0]
    assert max(map(len, header.split(b"\n"))) <= LINE_LIMIT + len("comment ")
    assert read(tmp_path / "a.ply").metadata["comments"] == cloud.metadata["comments"]


def test_chunked_reading_holds_one_chunk(tmp_path: Path) -> None:
    count = 200_000
    write(tmp_path / "a.ply", PointCloud(np.random.default_rng(0).normal(size=(count, 3))))
    tracemalloc.start()
    with open_reader(tmp_path / "a.ply") as reader:
        total = sum(len(chunk) for chunk in reader.chunks(1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == count
    assert peak < count * 24 / 4


@pytest.mark.parametrize(
    ("points", "expected"),
    [([[0.5, 1, 2]], "float"), ([[0.1, 1, 2]], "double"), ([[5e6 + 0.0001, 0, 0]], "double")],
)
def test_coordinates_are_as_wide_as_they_need(tmp_path: Path, points: Any, expected: str) -> None:
    write(tmp_path / "a.ply", PointCloud(points))
    back = read(tmp_path / "a.ply")
    assert back.metadata["ply"]["coordinates"] == expected
    assert back.points.tolist() == points


def test_coordinate_type_of_the_file_is_used_again(tmp_path: Path) -> None:
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


def test_text_coordinates_keep_their_digits(tmp_path: Path) -> None:
    text = HEAD.format("ascii") + f"element vertex 1\n{XYZ}end_header\n500000.1234 5e6 0.1\n"
    cloud = read(write_text(tmp_path / "a.ply", text))
    assert cloud.points.tolist() == [[500000.1234, 5e6, 0.1]]
    write(tmp_path / "b.ply", cloud)
    assert b"property float x" in (tmp_path / "b.ply").read_bytes()
    assert read(tmp_path / "b.ply").points.tolist() == cloud.points.tolist()


def test_text_coordinates_keep_their_digits_beside_lists(tmp_path: Path) -> None:
    lists = "property list uchar int near\n"
    text = HEAD.format("ascii") + f"element vertex 2\n{XYZ}{lists}end_header\n"
    path = write_text(tmp_path / "a.ply", text + "500000.1234 5e6 0.1 1 7\n1 2 3 2 8 9\n")
    cloud = read(path)
    assert cloud.points.tolist() == [[500000.1234, 5e6, 0.1], [1, 2, 3]]
    write(tmp_path / "b.ply", cloud)
    assert read(tmp_path / "b.ply").points.tolist() == cloud.points.tolist()


def test_chunks_moved_beyond_the_float32_of_their_header_are_named(tmp_path: Path) -> None:
    cloud = PointCloud(np.arange(30.0).reshape(10, 3))
    write(tmp_path / "near.ply", cloud)

    def move(offset: float) -> None:
        with (
            open_reader(tmp_path / "near.ply") as reader,
            open_writer(tmp_path / "far.ply", reader.header) as writer,
        ):
            for chunk in reader.chunks(4):
                writer.write(chunk.with_points(chunk.points + offset))

    move(0.1)  # rounds, as any number does, but not so that it could be seen
    with pytest.warns(LossWarning, match=r"single precision \(it moves them by up to 0\.1\)"):
        move(5e6 + 0.1)


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
def test_metadata_of_ply_that_a_header_cannot_say_survives(tmp_path: Path, ply: Any) -> None:
    write(tmp_path / "a.ply", PointCloud([[0, 0, 0]], metadata={"ply": ply}))
    back = read(tmp_path / "a.ply").metadata["ply"]
    assert back["format"] == "binary_little_endian"
    kept = {k: v for k, v in ply.items() if k not in ("format", "coordinates")}
    assert {k: back[k] for k in kept} == kept


def test_names_that_a_header_cannot_say_survive(tmp_path: Path) -> None:
    names = ["x", "red", "two words", "", "Höhe", "a_0", "a_1", "list"]
    attributes = {name: np.full(2, i, np.uint8) for i, name in enumerate(names)}
    attributes["colors"] = np.zeros((2, 3), np.uint8)
    cloud = PointCloud(np.zeros((2, 3)), attributes)
    write(tmp_path / "a.ply", cloud)
    assert_same(read(tmp_path / "a.ply"), cloud)


def test_duplicate_properties_and_blanks_in_names(tmp_path: Path) -> None:
    text = HEAD.format("ascii") + (
        f"element vertex 1\n{XYZ}property float v\nproperty float v\n"
        "property float Original cloud index\nend_header\n0 0 0 1 2 3\n"
    )
    cloud = read(write_text(tmp_path / "a.ply", text))
    values = {name: column.tolist() for name, column in cloud.attributes.items()}
    assert values == {"v": [1], "v_": [2], "Original cloud index": [3]}
    write(tmp_path / "b.ply", cloud)
    assert_same(read(tmp_path / "b.ply"), cloud)


VERTEX = f"element vertex 2\n{XYZ}"
BINARY = HEAD.format("binary_little_endian")
ASCII = HEAD.format("ascii")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"plyx\n", "no PLY file"),
        (b"\x89PNG", "no PLY file"),
        (b"ply\n", "no 'end_header'"),
        (b"ply\ngarbage\nend_header\n", "line 2: 'garbage' has no place"),
        (b"ply\nelement vertex 1\nend_header\n", "names no format"),
        (b"ply\nformat utf8 1.0\n", "line 2: unknown PLY format"),
        (b"ply\nformat\n", "unknown PLY format ''"),
        (f"{ASCII}property float x\n".encode(), "line 3: a property before any element"),
        (f"{ASCII}element vertex\n".encode(), "line 3: an element needs a name and a count"),
        (f"{ASCII}element vertex -1\n".encode(), "a count"),
        (f"{ASCII}element vertex 1e3\n".encode(), "a count"),
        (f"{ASCII}element vertex {10**30}\n".encode(), "a count"),
        (f"{ASCII}element vertex 1\nproperty long x\n".encode(), "unknown property type 'long'"),
        (f"{ASCII}element vertex 1\nproperty float\n".encode(), "needs a type and a name"),
        (f"{ASCII}element vertex 1\nproperty\n".encode(), "needs a type and a name"),
        (f"{ASCII}element vertex 1\nproperty list float int a\n".encode(), "whole number"),
        (f"{ASCII}element vertex 1\nproperty list\n".encode(), "needs a type and a name"),
        (f"{ASCII}end_header\n".encode(), "no element 'vertex'"),
        (f"{ASCII}element vertex 1\nproperty float x\nend_header\n1\n".encode(), "no y and no z"),
        (f"{ASCII}{VERTEX}end_header\n".encode(), "ends before the 2 rows"),
        (f"{ASCII}{VERTEX}end_header\n1 2 3.12345\n".encode(), "ends before the 2 rows"),
        (f"{ASCII}{VERTEX}end_header\n1 2 3\n1 2 x\n".encode(), "line 9: 'x' is not a number"),
        (f"{ASCII}{VERTEX}end_header\n1 2 3\n\n1 2\n".encode(), "line 10: 2 values where 3"),
        (f"{ASCII}{VERTEX}end_header\n1 2 3\n1 2 3\n4 5 6\n".encode(), "line 10: rows follow"),
        (f"{BINARY}{VERTEX}end_header\n".encode(), "ends before the 2 rows"),
        (f"{BINARY}{VERTEX}end_header\n".encode() + bytes(23), "ends before the 2 rows"),
        (f"{BINARY}{VERTEX}end_header\n".encode() + bytes(36), "12 bytes follow"),
        (
            f"{BINARY}element vertex {10**17}\n{XYZ}end_header\n".encode() + bytes(24),
            "ends before the 100000000000000000 rows",
        ),
        (
            f"{ASCII}element vertex {10**17}\n{XYZ}end_header\n0 0 0\n".encode(),
            "ends before the 100000000000000000 rows",
        ),
        (
            f"{ASCII}element vertex 1\n{XYZ}property uchar red\nend_header\n0 0 0 300\n".encode(),
            "'red' of element 'vertex' holds a value that is no uchar",
        ),
        (b"ply\ncomment " + b"x" * (1 << 21), "line 2: far too long"),
    ],
)
def test_damaged_files_are_one_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.ply"
    path.write_bytes(content)
    with pytest.raises(PdflowError) as caught:
        read(path)
    assert message in str(caught.value)
    assert "bad.ply" in str(caught.value)
    assert "\n" not in str(caught.value)


FACES = f"{VERTEX}element face 2\nproperty list char int vertex_indices\nend_header\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{BINARY}{FACES}".encode() + bytes(24) + b"\xff\0", "a list of length -1"),
        (f"{BINARY}{FACES}".encode() + bytes(24) + b"\x7f\0", "ends before the 2 rows of element"),
        (f"{BINARY}{FACES}".encode() + bytes(24) + b"\x01\0\0\0\0", "ends before"),
        (f"{BINARY}{FACES}".encode() + bytes(24) + b"\x01\0\0\0\0\x02\0", "ends before"),
        (f"{ASCII}{FACES}0 0 0\n1 1 1\n1 0\n".encode(), "ends before the 2 rows of element 'face'"),
        (f"{ASCII}{FACES}0 0 0\n1 1 1\n1 0\n-1 0\n".encode(), "line 13: no row of element 'face'"),
        (f"{ASCII}{FACES}0 0 0\n1 1 1\n1 0\n3 0 1\n".encode(), "line 13: no row of element 'face'"),
        (f"{ASCII}{FACES}0 0 0\n1 1 1\n1 0\n1 0 1\n".encode(), "line 13: no row of element 'face'"),
        (f"{ASCII}{FACES}0 0 0\n1 1 1\n1.5 0\n1 0\n".encode(), "line 12: no row of element 'face'"),
        (f"{ASCII}{FACES}0 0 0\n1 1 1\n1 a\n1 0\n".encode(), "line 12: no row of element 'face'"),
        (f"{ASCII}{FACES}0 0 0\n1 1 1\n1 0.5\n1 0\n".encode(), "no int"),
        (f"{ASCII}{FACES}0 0 0\n1 1 1\n1 0\n1 0\n9\n".encode(), "line 14: rows follow"),
    ],
)
def test_damaged_lists_are_one_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.ply"
    path.write_bytes(content)
    with pytest.raises(PdflowError, match=r"^[^\n]*$") as caught:
        read(path)
    assert message in str(caught.value)


def test_no_points_at_all(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.ply", f"{BINARY}element vertex 0\n{XYZ}end_header\n")
    with pytest.raises(PdflowError, match="holds no points"):
        read(path)


def test_latin1_comments_and_missing_last_line_end(tmp_path: Path) -> None:
    content = f"{ASCII}comment H\xf6he\n{VERTEX}end_header\n0 0 0\n1 1 1".encode("latin-1")
    (tmp_path / "a.ply").write_bytes(content)
    cloud = read(tmp_path / "a.ply")
    assert cloud.metadata["comments"] == ["Höhe"]
    assert len(cloud) == 2


def test_mesh_round_trip(tmp_path: Path) -> None:
    mesh = TriangleMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0.1]], [[0, 1, 2], [2, 1, 0]])
    write_mesh(tmp_path / "a.ply", mesh)
    back = read_mesh(tmp_path / "a.ply")
    np.testing.assert_array_equal(back.vertices, mesh.vertices)
    np.testing.assert_array_equal(back.faces, mesh.faces)
    assert len(read(tmp_path / "a.ply")) == 3


@pytest.mark.parametrize("name", ["vertex_indices", "vertex_index"])
def test_polygons_become_fans(tmp_path: Path, name: str) -> None:
    text = ASCII + (
        f"element vertex 5\n{XYZ}element face 4\nproperty list uchar int {name}\nend_header\n"
        + "0 0 0\n" * 5
        + "3 0 1 2\n5 0 1 2 3 4\n2 0 1\n4 4 3 2 1\n"
    )
    mesh = read_mesh(write_text(tmp_path / "a.ply", text))
    assert mesh.faces.tolist() == [
        *([0, 1, 2], [0, 1, 2], [0, 2, 3], [0, 3, 4], [4, 3, 2], [4, 2, 1])
    ]


def test_mesh_without_faces_or_with_wrong_ones(tmp_path: Path) -> None:
    text = f"{ASCII}{VERTEX}end_header\n0 0 0\n1 1 1\n"
    with pytest.raises(PdflowError, match=r"a\.ply holds no faces"):
        read_mesh(write_text(tmp_path / "a.ply", text))
    for body, message in (("0\n0\n", "holds no faces"), ("3 0 1 7\n0\n", "vertex 7")):
        text = f"{ASCII}{FACES}0 0 0\n1 1 1\n{body}"
        with pytest.raises(PdflowError, match=message):
            read_mesh(write_text(tmp_path / "a.ply", text))


def test_ragged_lists_need_their_points(tmp_path: Path) -> None:
    lists = {"counts": np.array([1, 0], np.uint8), "values": np.array([7], np.int32)}
    metadata = {"ply": {"vertices": 2, "ragged": {"r": lists}}}
    path = tmp_path / "a.ply"

    def write_one() -> None:
        with open_writer(path, Header(2, {}, metadata)) as writer:
            writer.write(PointCloud([[0, 0, 0]]))

    with pytest.raises(PdflowError, match="1 points came where 2 have lists"):
        write_one()
    with open_writer(path, Header(2, {}, metadata)) as writer:
        writer.write(PointCloud([[0, 0, 0]]))
        writer.write(PointCloud([[1, 1, 1]]))
    assert_same_tree(read(path).metadata["ply"]["ragged"], {"r": lists})


@pytest.mark.parametrize("format", FORMATS)
def test_other_software_reads_a_header_that_was_filled_up(tmp_path: Path, format: str) -> None:
    trimesh = pytest.importorskip("trimesh")
    cloud = example_cloud()
    del cloud.attributes["alpha"]
    cloud.metadata["ply"] = {"format": format}
    header = Header.of(cloud)
    with open_writer(tmp_path / "a.ply", Header(None, header.fields, cloud.metadata)) as writer:
        writer.write(cloud)
    loaded = trimesh.load(tmp_path / "a.ply")
    np.testing.assert_array_equal(loaded.vertices, cloud.points)
    np.testing.assert_array_equal(loaded.colors[:, :3], cloud.attributes["colors"])


def test_other_software_reads_our_meshes(tmp_path: Path) -> None:
    igl = pytest.importorskip("igl")
    rng = np.random.default_rng(0)
    mesh = TriangleMesh(rng.normal(size=(50, 3)), rng.integers(0, 50, (80, 3)))
    write_mesh(tmp_path / "a.ply", mesh)
    vertices, faces = igl.read_triangle_mesh(str(tmp_path / "a.ply"))
    np.testing.assert_array_equal(vertices, mesh.vertices)
    np.testing.assert_array_equal(faces, mesh.faces)


@pytest.mark.data
@pytest.mark.parametrize("name", ["lamppost.pcd", "milk.pcd", "simple.laz", "simple.copc.laz"])
@pytest.mark.parametrize("target", ["a.ply", "a.xyz"])
def test_real_files_survive(tmp_path: Path, shared: Path, name: str, target: str) -> None:
    source = shared / "data" / "real" / name
    pytest.importorskip("lazrs" if source.suffix == ".laz" else "numpy")
    cloud = read(source)
    write(tmp_path / target, cloud)
    through = read(tmp_path / target)
    assert_same(through, cloud)
    assert_same_tree({key: through.metadata[key] for key in cloud.metadata}, cloud.metadata)
    write(tmp_path / f"back{source.suffix}", through)
    back = read(tmp_path / f"back{source.suffix}")
    assert_same(back, cloud)


property_types = st.sampled_from(sorted(TYPES))
words = st.text("abcxyz_", min_size=1, max_size=3)


@st.composite
def ply_files(draw: st.DrawFn) -> tuple[bytes, str, list[Element], dict[str, Any]]:
    """A valid file: its bytes, format, elements and tables."""
    format = draw(st.sampled_from(FORMATS))
    elements, tables = [], {}
    names = ["vertex", *draw(st.lists(words.map("e_{}".format), max_size=2, unique=True))]
    for name in draw(st.permutations(names)):
        count = draw(st.integers(0 if name != "vertex" else 1, 4))
        properties, table = [], {}
        for p in draw(st.lists(words.map("p{}".format), max_size=4, unique=True)):
            dtype = TYPES[draw(property_types)]
            numbers = st.integers(0, 100)
            if draw(st.booleans()):
                counts = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
                values = draw(st.lists(numbers, min_size=sum(counts), max_size=sum(counts)))
                properties.append(Property(p, dtype, np.dtype("u1")))
                table[p] = {"counts": np.array(counts, "u1"), "values": np.array(values, dtype)}
            else:
                properties.append(Property(p, dtype))
                table[p] = np.array(draw(st.lists(numbers, min_size=count, max_size=count)), dtype)
        if name == "vertex":
            for axis in "xyz":
                properties.insert(
                    draw(st.integers(0, len(properties))), Property(axis, np.dtype("f4"))
                )
                table[axis] = np.arange(count, dtype=np.float32)
        elements.append(Element(name, count, tuple(properties)))
        tables[name] = table
    content = PlyHeader(format, elements, ["c"]).render()
    for e in elements:
        if format == "ascii":
            content += encode_ascii(e, tables[e.name]).encode()
        else:
            content += encode_binary(e, tables[e.name], ORDERS[format]).tobytes()
    return content, format, elements, tables


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ply_files(), st.sampled_from([1, 3, 100]))
def test_any_valid_file_is_understood_and_written_again(
    tmp_path: Path, file: tuple[bytes, str, list[Element], dict[str, Any]], size: int
) -> None:
    content, _, elements, tables = file
    path = tmp_path / "a.ply"
    path.write_bytes(content)
    with open_reader(path) as reader:
        cloud = PointCloud.concatenate(reader.chunks(size))
    count = next(e.count for e in elements if e.name == "vertex")
    assert cloud.points.tolist() == [[i, i, i] for i in range(count)]
    kept = cloud.metadata["ply"].get("elements", {})
    for e in elements:
        if e.name != "vertex":
            assert kept[e.name]["count"] == e.count
            assert_same_tree(kept[e.name]["properties"], tables[e.name])
    write(tmp_path / "b.ply", cloud)
    back = read(tmp_path / "b.ply")
    assert_same_tree(back.attributes, cloud.attributes)
    assert_same_tree(back.metadata, cloud.metadata)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ply_files(), st.data())
def test_damage_never_ends_in_another_error(
    tmp_path: Path, file: tuple[bytes, str, list[Element], dict[str, Any]], data: st.DataObject
) -> None:
    content = bytearray(file[0])
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "a.ply").write_bytes(content)
    assert_read_or_refused(tmp_path / "a.ply")


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.sampled_from([*ASCII.split("\n"), *FACES.split("\n"), "1 2 3", "3 0 0 0"])))
@example(["ply", "format ascii 1.0", "element vertex 1", "property float x", "end_header"])
def test_shuffled_headers_never_end_in_another_error(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "a.ply").write_text("\n".join(["ply", *lines]))
    assert_read_or_refused(tmp_path / "a.ply")


def test_field_order_of_the_header(tmp_path: Path) -> None:
    fields = {"b": Field(np.dtype("f4")), "a": Field(np.dtype("i8"), 2)}
    with open_writer(tmp_path / "a.ply", Header(None, fields)) as writer:
        writer.write(
            PointCloud([[0, 0, 0]], {"b": np.zeros(1, np.float32), "a": np.array([[1, 2]])})
        )
    with open_reader(tmp_path / "a.ply") as reader:
        assert reader.header.fields == fields
