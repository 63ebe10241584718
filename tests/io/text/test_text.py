"""Text formats: any delimiter, names or none, dtypes, chunks, damaged rows."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdflow import PointCloud, open_reader, open_writer, read, write
from pdflow.errors import LossWarning, PdflowError
from pdflow.io import Field, Header
from pdflow.io.tabular.rows import format_rows, parse_rows
from pdflow.io.text import reader as text_reader

SUFFIXES = ("xyz", "txt", "asc", "csv", "pts")


def write_file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def assert_same(left: PointCloud, right: PointCloud) -> None:
    np.testing.assert_array_equal(left.points, right.points)
    assert list(left.attributes) == list(right.attributes)
    for name, values in left.attributes.items():
        other = right.attributes[name]
        assert (values.dtype, values.shape) == (other.dtype, other.shape), name
        np.testing.assert_array_equal(values, other)


def example_cloud(count: int = 20) -> PointCloud:
    rng = np.random.default_rng(0)
    return PointCloud(
        rng.normal((5e5, 5e6, 100), size=(count, 3)),
        {
            "intensity": rng.integers(0, 60000, count).astype(np.uint16),
            "colors": rng.integers(0, 256, (count, 3)).astype(np.uint8),
            "normals": rng.normal(size=(count, 3)).astype(np.float32),
            "gps_time": rng.uniform(0, 1e9, count),
            "inside": rng.integers(0, 2, count).astype(bool),
            "id": rng.integers(2**63, 2**64, count, dtype=np.uint64),
            "delta": rng.integers(-(2**63), 2**62, count),
            "half": rng.normal(size=count).astype(np.float16),
            "features": rng.normal(size=(count, 5)),
        },
        {"crs": "EPSG:25832", "comments": ["by hand", "x y z"], "las": {"vlr": b"\0\1" * 9999}},
    )


# Reading what others wrote


@pytest.mark.parametrize(
    "content",
    [
        "1 2.5 3\n4 5 6\n",
        "1\t2.5\t3\n4\t5\t6",
        "  1   2.5 3 \r\n 4 5\t6\r\n",
        "1,2.5,3\n4,5,6\n",
        "1, 2.5 , 3\n4,  5,6\n",
        "1,2.5,3,\n4,5,6,\n",
        "1;2.5;3\n4;5;6\n",
        "1;2.5;3;\r4;5;6;\r",
        "1,0;2,5;3,0\n4,0;5,0;6,0\n",
        "1,0\t2,5\t3\n4\t5\t6,0\n",
        "1;2,5;3\n4;5;6\n",
        '"1","2.5","3"\n"4","5","6"\n',
        "# made by hand\n\n1 2.5 3\n\n# break\n4 5 6\n\n",
        "// made by hand\n1 2.5 3\n// break\n4 5 6\n",
        "% made by hand\n1 2.5 3\n4 5 6\n% end",
        "2\n1 2.5 3\n4 5 6\n",
        "\ufeff1 2.5 3\n4 5 6\n",
        "x y z\n1 2.5 3\n4 5 6\n",
        "X,Y,Z\n1,2.5,3\n4,5,6\n",
        '"X","Y","Z"\n1,2.5,3\n4,5,6\n',
        "//X Y Z\n2\n1 2.5 3\n4 5 6\n",
        "z y x\n3 2.5 1\n6 5 4\n",
        "# Z;X;Y\n3 1 2.5\n6 4 5\n",
        "Easting Northing Height\n1 2.5 3\n4 5 6\n",
        "Latitude,Longitude,Altitude\n2.5,1,3\n5,4,6\n",
        "1|2.5|3\n4|5|6\n",
        "x | y | z\n1 | 2.5 | 3\n4 | 5 | 6\n",
        "1e0 25e-1 +3.\n4 5 6\n",
    ],
)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_way_to_write_three_columns(tmp_path: Path, content: str, suffix: str) -> None:
    cloud = read(write_file(tmp_path, f"a.{suffix}", content))
    assert cloud.points.tolist() == [[1, 2.5, 3], [4, 5, 6]]
    assert cloud.attributes == {}
    found = cloud.metadata.get("comments", [])
    assert found == (["made by hand"] if "by hand" in content else [])


def test_coordinates_by_other_names_than_x_y_z(tmp_path: Path) -> None:
    content = "id,lat,lon,h\n1,50.5,8.25,100\n2,50.75,8.5,101\n"
    cloud = read(write_file(tmp_path, "a.csv", content))
    assert cloud.points.tolist() == [[8.25, 50.5, 100], [8.5, 50.75, 101]]
    assert names_and_dtypes(cloud) == {"id": "int64"}
    both = read(write_file(tmp_path, "b.csv", "x,y,z,height,lat\n1,2,3,4,5\n"))
    assert both.points.tolist() == [[1, 2, 3]]
    assert list(both.attributes) == ["height", "lat"]
    write(tmp_path / "c.csv", both)
    assert_same(read(tmp_path / "c.csv"), both)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", "utf-8-sig"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    content = "# größe\nx y z Höhe\n1 2 3 0.5\n".encode(encoding)
    cloud = read(write_file(tmp_path, "a.txt", content))
    assert cloud.metadata == {"comments": ["größe"]}
    assert cloud.attributes["Höhe"].tolist() == [0.5]


def names_and_dtypes(cloud: PointCloud) -> dict[str, str]:
    return {
        name: values.dtype.name + (f"x{values.shape[1]}" if values.ndim == 2 else "")
        for name, values in cloud.attributes.items()
    }


@pytest.mark.parametrize(
    ("name", "rows", "expected"),
    [
        ("a.xyz", ["0 0 0 7", "0 0 0 8"], {"intensity": "int64"}),
        ("a.xyz", ["0 0 0 7", "0 0 0 8.5"], {"intensity": "float64"}),
        ("a.xyz", ["0 0 0 0 128 255", "0 0 0 1 2 3"], {"colors": "uint8x3"}),
        ("a.csv", ["0,0,0,0,128,255"], {"colors": "uint8x3"}),
        (
            "a.xyz",
            ["0 0 0 0 128 256"],
            {"column_3": "int64", "column_4": "int64", "column_5": "int64"},
        ),
        (
            "a.xyz",
            ["0 0 0 0 128 -1"],
            {"column_3": "int64", "column_4": "int64", "column_5": "int64"},
        ),
        ("a.xyz", ["0 0 0 0.6 0.8 0", "0 0 0 0 0 1"], {"normals": "float64x3"}),
        ("a.xyz", ["0 0 0 0 0.8 0.6", "0 0 0 0 0 1"], {"normals": "float64x3"}),
        (
            "a.xyz",
            ["0 0 0 0.6 0.8 5"],
            {"column_3": "float64", "column_4": "float64", "column_5": "int64"},
        ),
        ("a.xyzn", ["0 0 0 0.6 0.8 0.5"], {"normals": "float64x3"}),
        ("a.xyzn", ["0 0 0 0.6 8 0.5 1"], {"normals": "float64x3", "column_6": "int64"}),
        ("a.xyzrgb", ["0 0 0 0.6 0.8 0.5"], {"colors": "float64x3"}),
        ("a.xyzrgb", ["0 0 0 6 8 500"], {"colors": "uint16x3"}),
        ("a.xyzrgb", ["0 0 0 6 8 70000"], {"colors": "int64x3"}),
        ("a.xyz", ["0 0 0 1 2"], {"column_3": "int64", "column_4": "int64"}),
        (
            "a.xyz",
            ["0 0 0 1 2 3 0 0.6 0.8"],
            {"colors": "uint8x3", "normals": "float64x3"},
        ),
        (
            "a.txt",
            ["0 0 0 0 0.6 0.8 1 2 3"],
            {"normals": "float64x3", "colors": "uint8x3"},
        ),
        ("a.pts", ["2", "0 0 0 -7", "0 0 0 8"], {"intensity": "int64"}),
        ("a.pts", ["1", "0 0 0 -7 1 2 3"], {"intensity": "int64", "colors": "uint8x3"}),
        ("a.pts", ["1", "0 0 0 1 2 3"], {"colors": "uint8x3"}),
        ("a.pts", ["0 0 0 0.5 1 2 3"], {"intensity": "float64", "colors": "uint8x3"}),
        (
            "a.txt",
            ["//X Y Z R G B Intensity GpsTime Nx Ny Nz", "0 0 0 1 2 3 4 5.5 0 0 1"],
            {
                "colors": "uint8x3",
                "intensity": "int64",
                "gps_time": "float64",
                "normals": "int64x3",
            },
        ),
        (
            "a.csv",
            ["I,x,y,z,Red,GREEN,b,Class,My Own", "1,0,0,0,1,2,3,4,0.5"],
            {"intensity": "int64", "colors": "uint8x3", "classification": "int64", "My Own": "f"},
        ),
        ("a.csv", ["x,y,z,a,a,,", "0,0,0,1,2,3,4"], {"a": "int64", "a_": "int64"}),
        ("a.xyz", ["x y z w_0 w_1", "0 0 0 1.5 2.5"], {"w": "float64x2"}),
        ("a.xyz", ["x y z r g B", "0 0 0 1 2 3"], {"colors": "uint8x3"}),
        ("a.xyz", ["x y z a b Nx", "0 0 0 1 2 3"], {"a": "int64", "b": "int64", "Nx": "int64"}),
        ("a.xyz", ["0 0 0 18446744073709551615"], {"intensity": "uint64"}),
        ("a.xyz", ["0 0 0 18446744073709551616"], {"intensity": "float64"}),
        ("a.xyz", ["0 0 0 nan", "0 0 0 1"], {"intensity": "float64"}),
    ],
)
def test_names_and_dtypes(
    tmp_path: Path, name: str, rows: list[str], expected: dict[str, str]
) -> None:
    cloud = read(write_file(tmp_path, name, "\n".join(rows) + "\n"))
    assert cloud.points.tolist() == [[0, 0, 0]] * len(cloud)
    found = names_and_dtypes(cloud)
    for key, dtype in expected.items():
        assert found.pop(key).startswith(dtype)
    assert set(found) <= {"unnamed", "unnamed_"}


def test_integers_stay_exact(tmp_path: Path) -> None:
    rows = [2**53 + 1, -(2**63), 2**63 - 1]
    content = "x y z id\n" + "".join(f"0 0 0 {value}\n" for value in rows)
    assert read(write_file(tmp_path, "a.xyz", content)).attributes["id"].tolist() == rows


@pytest.mark.parametrize("keep", [True, False])
def test_a_late_fraction_or_large_number_decides_the_dtype(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    monkeypatch.setattr(text_reader, "_SURVEY_ROWS", 10)
    monkeypatch.setattr(text_reader, "KEEP_BYTES", 1 << 20 if keep else 1)
    rows = [[0, 0, 0, 1, 2, 3, 4] for _ in range(5000)]
    rows[4000][4] = 0.5  # type: ignore[call-overload]
    rows[4500][5] = 2**63 + 1
    rows[20][6] = -1
    rows[4501][6] = 2**63
    content = "x y z a b c d\n" + "".join(" ".join(map(str, row)) + "\n" for row in rows)
    with open_reader(write_file(tmp_path, "a.xyz", content)) as reader:
        assert reader.header.count == 5000
        dtypes = {name: field.dtype.name for name, field in reader.header.fields.items()}
        assert dtypes == {"a": "int64", "b": "float64", "c": "uint64", "d": "float64"}
        cloud = PointCloud.concatenate(reader.chunks(999))
    assert cloud.attributes["b"][[0, 4000]].tolist() == [2, 0.5]
    assert cloud.attributes["c"][[0, 4500]].tolist() == [3, 2**63 + 1]
    assert cloud.attributes["d"][[20, 4501]].tolist() == [-1, 2.0**63]


@pytest.mark.parametrize("late", ["256", "1.5", "-3"])
def test_a_late_value_that_is_no_color_decides_the_names(tmp_path: Path, late: str) -> None:
    content = "0 0 0 1 2 3\n" * 2000 + f"0 0 0 1 2 {late}\n"
    names = set(read(write_file(tmp_path, "a.xyz", content)).attributes)
    assert names == {"column_3", "column_4", "column_5"}


# Writing


def test_points_alone_are_plain_numbers(tmp_path: Path) -> None:
    write(tmp_path / "a.xyz", PointCloud([[0.1, 2, -0.0], [1e-300, 1 / 3, 5e6 + 1e-4]]))
    assert (tmp_path / "a.xyz").read_text() == (
        "0.1 2.0 -0.0\n1e-300 0.3333333333333333 5000000.0001\n"
    )


def test_each_kind_looks_as_its_readers_expect(tmp_path: Path) -> None:
    colors = np.array([[1, 2, 3]], np.uint8)
    cloud = PointCloud([[1, 2, 3]], {"intensity": np.array([7]), "colors": colors})
    rows = "1.0 2.0 3.0 7 1 2 3\n"
    for name, text in {
        "a.xyz": "# x y z intensity red green blue\n" + rows,
        "a.txt": "# x y z intensity red green blue\n" + rows,
        "a.csv": "x,y,z,intensity,red,green,blue\n" + rows.replace(" ", ","),
        "a.pts": "1\n" + rows,
        "a.xyzrgb": "# x y z intensity red green blue\n" + rows,
    }.items():
        write(tmp_path / name, cloud)
        assert (tmp_path / name).read_text() == text
        assert_same(read(tmp_path / name), cloud)
    del cloud.attributes["intensity"]
    write(tmp_path / "a.xyzrgb", cloud)
    assert (tmp_path / "a.xyzrgb").read_text() == "1.0 2.0 3.0 1 2 3\n"
    assert_same(read(tmp_path / "a.xyzrgb"), cloud)
    cloud = PointCloud([[1, 2, 3]], {"normals": np.array([[0.0, 0.5, 0.5]])})
    write(tmp_path / "a.xyzn", cloud)
    assert (tmp_path / "a.xyzn").read_text() == "1.0 2.0 3.0 0.0 0.5 0.5\n"
    assert_same(read(tmp_path / "a.xyzn"), cloud)


def test_pts_begins_with_its_count_and_rows_whatever_it_holds(tmp_path: Path) -> None:
    cloud = example_cloud()
    write(tmp_path / "a.pts", cloud)
    lines = (tmp_path / "a.pts").read_text().splitlines()
    assert lines[0] == "20"
    assert all(not line.startswith("#") for line in lines[:21])
    assert all(line.startswith("# ") for line in lines[21:])
    assert lines[-1].startswith("# x y z intensity red green blue nx ny nz")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_everything_comes_back(tmp_path: Path, suffix: str) -> None:
    cloud = example_cloud()
    write(tmp_path / f"a.{suffix}", cloud)
    back = read(tmp_path / f"a.{suffix}")
    assert_same(back, cloud)
    assert back.metadata == cloud.metadata


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("size", [1, 7, 20, 1000])
@pytest.mark.parametrize("known", [True, False])
def test_chunks(tmp_path: Path, suffix: str, size: int, known: bool) -> None:
    cloud = example_cloud()
    header = Header.of(cloud)
    header = Header(20 if known else None, header.fields, header.metadata)
    with open_writer(tmp_path / f"a.{suffix}", header) as writer:
        for start in range(0, 20, size):
            writer.write(cloud[start : start + size])
    with open_reader(tmp_path / f"a.{suffix}") as reader:
        assert reader.header.fields == header.fields
        for _ in range(2):
            chunks = list(reader.chunks(size))
            assert [len(c) for c in chunks] == [min(size, 20 - i) for i in range(0, 20, size)]
            assert_same(PointCloud.concatenate(chunks), cloud)
            assert chunks[-1].metadata == cloud.metadata


def test_chunks_are_full_even_with_comments_between(tmp_path: Path) -> None:
    content = "".join(f"{i} 0 0\n# {i}\n\n" for i in range(10))
    with open_reader(write_file(tmp_path, "a.xyz", content)) as reader:
        chunks = list(reader.chunks(4))
    assert [len(chunk) for chunk in chunks] == [4, 4, 2]
    assert np.concatenate([chunk.points[:, 0] for chunk in chunks]).tolist() == list(range(10))


def test_fewer_points_than_announced(tmp_path: Path) -> None:
    cloud = example_cloud()
    for suffix in SUFFIXES:
        with open_writer(tmp_path / f"a.{suffix}", Header.of(cloud)) as writer:
            writer.write(cloud[:7])
        assert_same(read(tmp_path / f"a.{suffix}"), cloud[:7])


def test_more_points_than_announced(tmp_path: Path) -> None:
    cloud = example_cloud()
    for suffix in SUFFIXES:
        header = Header(7, Header.of(cloud).fields, cloud.metadata)
        with open_writer(tmp_path / f"a.{suffix}", header) as writer:
            for start in range(20):
                writer.write(cloud[start : start + 1])
        assert_same(read(tmp_path / f"a.{suffix}"), cloud)


def test_a_decimal_comma_may_come_late(tmp_path: Path) -> None:
    content = "1;2;3\n" * 9 + "1,5;2;3\n"
    assert read(write_file(tmp_path, "a.csv", content)).points[-1].tolist() == [1.5, 2, 3]


def test_chunked_reading_holds_one_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_reader, "_SURVEY_ROWS", 500)
    monkeypatch.setattr(text_reader, "KEEP_BYTES", 1 << 17)
    count = 40_000
    rng = np.random.default_rng(0)
    for attributes in ({}, {"intensity": rng.integers(0, 99, count)}):
        write(tmp_path / "a.xyz", PointCloud(rng.normal(size=(count, 3)), attributes))
        tracemalloc.start()
        with open_reader(tmp_path / "a.xyz") as reader:
            total = sum(len(chunk) for chunk in reader.chunks(500))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert total == count
        assert peak < (tmp_path / "a.xyz").stat().st_size / 2


def test_what_text_cannot_hold_is_named(tmp_path: Path) -> None:
    cloud = PointCloud(
        [[0, 0, 0]],
        {"label": np.array(["tree"]), "wave": np.array([1j]), "none": np.zeros((1, 0))},
        {"odd": object()},
    )
    with pytest.warns(LossWarning) as caught:
        write(tmp_path / "a.csv", cloud)
    (warning,) = caught
    assert str(warning.message) == (
        "CSV cannot hold attribute 'label' (text), attribute 'wave' (complex128), "
        "attribute 'none' (no values), metadata 'odd': left out."
    )


def test_names_that_look_like_something_else_survive(tmp_path: Path) -> None:
    names = ["X", "r", "I", "red", "nan", "1.5", "a,b", "a;b", "# c", "", "two words", "Höhe"]
    attributes: dict[str, Any] = {name: np.full(2, i, np.int64) for i, name in enumerate(names)}
    attributes["colors"] = np.zeros((2, 3), np.uint8)
    for suffix in SUFFIXES:
        cloud = PointCloud(np.zeros((2, 3)), attributes)
        write(tmp_path / f"a.{suffix}", cloud)
        assert_same(read(tmp_path / f"a.{suffix}"), cloud)


@pytest.mark.parametrize("dtype", ["u1", "u2", "i4", "i8", "u8", "f4", "f8"])
@pytest.mark.parametrize("name", ["colors", "normals", "red"])
def test_colors_and_normals_keep_their_dtype(tmp_path: Path, dtype: str, name: str) -> None:
    values = np.array([[0, 1, 2], [3, 4, 5]], dtype)
    cloud = PointCloud(np.zeros((2, 3)), {name: values[:, 0] if name == "red" else values})
    for suffix in SUFFIXES:
        write(tmp_path / f"a.{suffix}", cloud)
        assert_same(read(tmp_path / f"a.{suffix}"), cloud)


def test_elements_of_a_mesh_survive_text(tmp_path: Path) -> None:
    faces = {"counts": np.full(2, 3, np.uint8), "values": np.arange(6, dtype=np.int32)}
    ply = {
        "format": "ascii",
        "coordinates": "float",
        "vertices": 6,
        "elements": {"face": {"count": 2, "properties": {"vertex_indices": faces}}},
    }
    write(tmp_path / "a.xyz", PointCloud(np.eye(6, 3), metadata={"ply": ply}))
    write(tmp_path / "b.ply", read(tmp_path / "a.xyz"))
    back = read(tmp_path / "b.ply").metadata["ply"]
    assert back["format"] == "ascii"
    kept = back["elements"]["face"]["properties"]["vertex_indices"]
    np.testing.assert_array_equal(kept["values"], faces["values"])


def test_header_tells_fields_before_the_rows_are_read(tmp_path: Path) -> None:
    with open_writer(tmp_path / "a.xyz", Header(None, {"a": Field(np.dtype("f4"), 2)})) as writer:
        writer.write(PointCloud([[0, 0, 0]], {"a": np.array([[0.1, 0.2]], np.float32)}))
    text = (tmp_path / "a.xyz").read_text()
    assert text.endswith("# x y z a_0 a_1\n0.0 0.0 0.0 0.1 0.2\n")
    with open_reader(tmp_path / "a.xyz") as reader:
        assert reader.header.fields == {"a": Field(np.dtype("f4"), 2)}
        assert reader.header.count is None


# Damaged files

ROWS = "0 0 0\n" * 16


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xyz", ROWS + "1 abc 2\n", "a.xyz, line 17: 'abc' is not a number: correct"),
        ("a.xyz", "# c\n\n" + ROWS + "1 2\n", "a.xyz, line 19: 2 values where 3 belong"),
        ("a.xyz", ROWS + "1 2 3 4\n", "a.xyz, line 17: 4 values where 3 belong"),
        ("a.xyz", ROWS + "1 2 3 # x\n", "line 17"),
        ("a.csv", "x,y,z\n1,2,3\n1,,3\n", "line 3: '' is not a number"),
        ("a.csv", "x,y,z,c\n1,2,3,tree\n", "line 2: 'tree' is not a number"),
        ("a.csv", "x,y,z,w\n1,2,3\n", "names 4 columns but line 2 has 3 values"),
        ("a.xyz", "x y intensity\n1 2 3\n", "no column is called z"),
        ("a.xyz", "abc\ndef\n", "line 2: 'def' is not a number"),
        ("a.xyz", "1 2\n3 4\n", "line 1: 2 values where a point has at least 3"),
        ("a.xyz", "1 b 3\n", "line 1: 'b' is not a number"),
        ("a.xyz", "x y z\n", "holds no row of numbers"),
        ("a.xyz", "# only\n\n", "holds no row of numbers"),
        ("a.xyz", " \n", "holds no row of numbers"),
        ("a.xyz", b"\x00\x01\x02\xff" * 9, "is no text"),
        ("a.xyz", b"1 2 3\n4 5 6\n\x00", "is no text, for its byte 12 is zero"),
        ("a.xyz", b"\xfe\xff\xfe" * 999, ""),
        ("a.xyz", b"\xff\xd8\xff\xe0" * 99, "holds no row of numbers"),
        ("a.xyz", "1" * (1 << 21), "line 1: too long"),
        ("a.pts", "3\n0 0 0\n1 1 1\n", "says that it holds 3 points but has 2 rows"),
        ("a.pts", "1\n0 0 0 1\n1 1 1 2\n", "says that it holds 1 points but has 2 rows"),
        ("a.pts", "99999999999999999999\n0 0 0\n", "but has 1 rows"),
        ("a.pts", "3\n", "holds no row of numbers"),
    ],
)
def test_damaged_files_are_one_sentence(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(PdflowError) as caught:
        read(write_file(tmp_path, name, content))
    assert message in str(caught.value)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_edited_values_that_no_longer_fit(tmp_path: Path) -> None:
    write(tmp_path / "a.xyz", PointCloud([[0, 0, 0]], {"a": np.array([7], np.uint8)}))
    text = (tmp_path / "a.xyz").read_text()
    for value, message in (("7.5", "'7.5' is no int64"), ("300", "column 'a' do not fit uint8")):
        path = write_file(tmp_path, "b.xyz", text.replace(" 7\n", f" {value}\n"))
        with pytest.raises(PdflowError, match=message):
            read(path)


def assert_read_or_refused(path: Path) -> None:
    try:
        message = f"{len(read(path))} points"
    except PdflowError as error:
        message = str(error)
    assert message
    assert "\n" not in message


quick = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
tokens = st.sampled_from(
    [*"0123xyzrgb,;.#%\"'\t\n-", "\r\n", "//", "nan", "1e5", "1.5", " ", "  ", "\n", "pdflow "]
)


@quick
@given(st.lists(tokens).map("".join), st.sampled_from(SUFFIXES))
def test_text_that_is_almost_a_cloud(tmp_path: Path, content: str, suffix: str) -> None:
    if content:
        assert_read_or_refused(write_file(tmp_path, f"a.{suffix}", content))


@quick
@given(st.binary(min_size=1), st.sampled_from(SUFFIXES))
def test_garbage(tmp_path: Path, content: bytes, suffix: str) -> None:
    assert_read_or_refused(write_file(tmp_path, f"a.{suffix}", content))


@quick
@given(st.data(), st.sampled_from(SUFFIXES))
def test_cut_and_changed_files(tmp_path: Path, data: st.DataObject, suffix: str) -> None:
    cloud = example_cloud(4)
    cloud.metadata["las"] = {"vlr": b"\0"}
    write(tmp_path / f"a.{suffix}", cloud)
    content = bytearray((tmp_path / f"a.{suffix}").read_bytes())
    del content[data.draw(st.integers(1, len(content))) :]
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert_read_or_refused(write_file(tmp_path, f"b.{suffix}", bytes(content)))


any_float = st.floats(allow_nan=False, allow_infinity=False)


@quick
@given(
    st.lists(st.tuples(any_float, any_float, any_float), min_size=1),
    st.sampled_from(SUFFIXES),
)
def test_every_double_comes_back(
    tmp_path: Path, points: list[tuple[float, float, float]], suffix: str
) -> None:
    with np.errstate(over="ignore"):
        write(tmp_path / f"a.{suffix}", PointCloud(points))
    back = read(tmp_path / f"a.{suffix}").points
    assert back.tobytes() == np.array(points).tobytes()


@quick
@given(st.lists(st.floats(width=32), min_size=1), st.lists(st.floats(width=16), min_size=1))
def test_every_narrow_float_comes_back(singles: list[float], halves: list[float]) -> None:
    for values in (np.array(singles, np.float32), np.array(halves, np.float16)):
        lines = format_rows([values]).splitlines(keepends=True)
        (back,) = parse_rows(lines, [np.dtype(np.float64)], Path("a"), 1)
        np.testing.assert_array_equal(back.astype(values.dtype), values)


def test_narrow_floats_are_short(tmp_path: Path) -> None:
    values = np.array([0.1, 0.2, 1 / 3, 123456.7, -1e-7], np.float32)
    assert format_rows([values]).split() == ["0.1", "0.2", "0.33333334", "123456.7", "-1e-07"]
