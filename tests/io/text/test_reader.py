"""Text from other software: any delimiter, names or none, dtypes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pdflow import PointCloud, open_reader, read, write
from pdflow.io.text import reader as text_reader

SUFFIXES = ("xyz", "txt", "asc", "csv", "pts")
Same = Callable[[PointCloud, PointCloud], None]


def write_file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


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


def test_coordinates_with_other_names(tmp_path: Path, same_attributes: Same) -> None:
    content = "id,lat,lon,h\n1,50.5,8.25,100\n2,50.75,8.5,101\n"
    cloud = read(write_file(tmp_path, "a.csv", content))
    assert cloud.points.tolist() == [[8.25, 50.5, 100], [8.5, 50.75, 101]]
    assert names_and_dtypes(cloud) == {"id": "int64"}
    both = read(write_file(tmp_path, "b.csv", "x,y,z,height,lat\n1,2,3,4,5\n"))
    assert both.points.tolist() == [[1, 2, 3]]
    assert list(both.attributes) == ["height", "lat"]
    write(tmp_path / "c.csv", both)
    same_attributes(read(tmp_path / "c.csv"), both)


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
def test_later_fraction_or_large_number_decides_the_dtype(
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
def test_later_value_that_is_not_a_color_decides_the_names(tmp_path: Path, late: str) -> None:
    content = "0 0 0 1 2 3\n" * 2000 + f"0 0 0 1 2 {late}\n"
    names = set(read(write_file(tmp_path, "a.xyz", content)).attributes)
    assert names == {"column_3", "column_4", "column_5"}


def test_chunks_are_full_even_with_comments_between(tmp_path: Path) -> None:
    content = "".join(f"{i} 0 0\n# {i}\n\n" for i in range(10))
    with open_reader(write_file(tmp_path, "a.xyz", content)) as reader:
        chunks = list(reader.chunks(4))
    assert [len(chunk) for chunk in chunks] == [4, 4, 2]
    assert np.concatenate([chunk.points[:, 0] for chunk in chunks]).tolist() == list(range(10))


def test_decimal_comma_in_a_later_row(tmp_path: Path) -> None:
    content = "1;2;3\n" * 9 + "1,5;2;3\n"
    assert read(write_file(tmp_path, "a.csv", content)).points[-1].tolist() == [1.5, 2, 3]


def test_chunked_reading_holds_one_chunk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    memory_in_chunks: Callable[[Path, int], tuple[int, int]],
) -> None:
    monkeypatch.setattr(text_reader, "_SURVEY_ROWS", 500)
    monkeypatch.setattr(text_reader, "KEEP_BYTES", 1 << 17)
    count = 40_000
    rng = np.random.default_rng(0)
    for attributes in ({}, {"intensity": rng.integers(0, 99, count)}):
        write(tmp_path / "a.xyz", PointCloud(rng.normal(size=(count, 3)), attributes))
        total, peak = memory_in_chunks(tmp_path / "a.xyz", 500)
        assert total == count
        assert peak < (tmp_path / "a.xyz").stat().st_size / 2
