"""NPY: any array of points, tables, and nothing pickled."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, open_reader, open_writer, read, write
from pdflow.errors import LossWarning, PdflowError
from pdflow.io.stream import Header

Same = Callable[[PointCloud, PointCloud], None]
POINTS = np.arange(12.0).reshape(4, 3) + 0.1


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i1", "u2", ">i4", "i8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_arrays_of_any_number_type(tmp_path: Path, dtype: str, order: Any) -> None:
    array = np.array(POINTS, dtype, order=order)
    np.save(tmp_path / "a.npy", array)
    cloud = read(tmp_path / "a.npy")
    np.testing.assert_array_equal(cloud.points, array.astype(np.float64))
    assert not cloud.attributes


def test_other_columns_of_npy_are_numbered(tmp_path: Path) -> None:
    array = np.arange(20, dtype=np.float32).reshape(4, 5)
    np.save(tmp_path / "a.npy", array)
    cloud = read(tmp_path / "a.npy")
    np.testing.assert_array_equal(cloud.points, array[:, :3])
    assert {n: (v.dtype.name, v.tolist()) for n, v in cloud.attributes.items()} == {
        "column_3": ("float32", [3, 8, 13, 18]),
        "column_4": ("float32", [4, 9, 14, 19]),
    }


def test_table_from_other_software_gets_common_names(tmp_path: Path) -> None:
    names = ["Z", "Y", "X", "red", "green", "blue", "nx", "ny", "nz", "Intensity"]
    types = ["f8"] * 3 + ["u2"] * 3 + ["f4"] * 3 + ["u2"]
    table = np.zeros(4, list(zip(names, types, strict=True)))
    table["X"], table["green"], table["Intensity"] = 1.5, 7, 9
    np.save(tmp_path / "a.npy", table)
    cloud = read(tmp_path / "a.npy")
    assert cloud.points[0].tolist() == [1.5, 0, 0]
    assert list(cloud.attributes) == ["colors", "normals", "Intensity"]
    assert cloud.attributes["colors"][0].tolist() == [0, 7, 0]
    assert cloud.attributes["normals"].dtype == np.float32


def test_npy_without_attributes_is_a_plain_array(tmp_path: Path) -> None:
    write(tmp_path / "a.npy", PointCloud(POINTS))
    array = np.load(tmp_path / "a.npy")
    assert array.dtype == np.float64
    assert array.tolist() == POINTS.tolist()


def test_npy_with_attributes_is_a_table_with_x_y_z(tmp_path: Path) -> None:
    colors = np.arange(12, dtype=np.uint8).reshape(4, 3)
    write(tmp_path / "a.npy", PointCloud(POINTS, {"colors": colors}))
    table = np.load(tmp_path / "a.npy")
    assert table.dtype.names == ("x", "y", "z", "colors")
    assert table["y"].tolist() == POINTS[:, 1].tolist()
    assert table["colors"].tolist() == colors.tolist()


def every_dtype() -> dict[str, Any]:
    return {
        "text": np.array(["a", "Höhe", "", "dd"]),
        "bytes": np.array([b"a", b"b", b"", b"c"]),
        "time": np.array(["2020-01-01"] * 4, "M8[ms]"),
        "complex": np.array([1j, 2, 3, 4], np.complex64),
        "big": np.arange(4, dtype=">i8"),
        "pair": np.zeros(4, [("a", "i4"), ("b", "f8", (2,))]),
        "none": np.zeros((4, 0), np.float32),
        "one": np.zeros((4, 1), bool),
        "Höhe über NN": np.arange(4),
    }


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_every_dtype_except_objects_comes_back(
    tmp_path: Path, suffix: str, same_attributes: Same
) -> None:
    cloud = PointCloud(POINTS, every_dtype())
    write(tmp_path / f"a.{suffix}", cloud)
    same_attributes(read(tmp_path / f"a.{suffix}"), cloud)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
@pytest.mark.parametrize(
    "names",
    [
        ("x", "y"),
        ("X",),
        ("red", "green", "blue"),
        ("nx", "ny", "nz"),
        ("w_0", "w_1"),
        ("xyz", "pdflow", "file", "a.npy", "a/b", "with blank"),
        ("colors_0", "colors_1", "colors_2", "colors"),
    ],
)
def test_names_with_a_meaning_elsewhere(
    tmp_path: Path, suffix: str, names: tuple[str, ...], same_attributes: Same
) -> None:
    cloud = PointCloud(POINTS, {n: np.arange(4, dtype="i2") + i for i, n in enumerate(names)})
    write(tmp_path / f"a.{suffix}", cloud)
    same_attributes(read(tmp_path / f"a.{suffix}"), cloud)


def test_npy_names_in_one_warning_what_it_cannot_hold(tmp_path: Path) -> None:
    cloud = PointCloud(
        POINTS,
        {
            "odd": np.array([None] * 4),
            "": np.zeros(4),
            "points": np.zeros(4),
            "ok": np.ones(4),
            "void": np.zeros(4, "V0"),
        },
        {"crs": "EPSG:25832", "comments": ["by hand"]},
    )
    with pytest.warns(LossWarning) as caught:
        write(tmp_path / "a.npy", cloud)
    assert len(caught) == 1
    for name in ("'odd'", "''", "'points'", "'void'", "'crs'", "'comments'"):
        assert name in str(caught[0].message)
    assert list(read(tmp_path / "a.npy").attributes) == ["ok"]


def npy_bytes(descr: str, shape: str, data: bytes = b"", order: str = "False") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x93NUMPX\x01\x00", "not in NPY format"),
        (b"\x93NUMPY\x04\x00", "version 4"),
        (b"\x93NUMPY\x01\x00\xff\xff{}", "header is damaged"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "header is damaged"),
        (npy_bytes("'<f8'", f"({10**15}, 3)"), "promises 24000000000000000 bytes"),
        (npy_bytes("'<f8'", "(2, 3)", bytes(47)), "promises 48 bytes of values but 47 follow"),
        (npy_bytes("'<f8'", "(1, 3)", bytes(48)), "promises 24 bytes of values but 48 follow"),
        (npy_bytes("'<f8'", "(-1, 3)"), "header is damaged"),
        (npy_bytes("'<f8'", "(1.5, 3)"), "header is damaged"),
        (npy_bytes("'<f8'", "3"), "header is damaged"),
        (npy_bytes("'<f8'", "(True, 3)", bytes(24)), "header is damaged"),
        (npy_bytes("('<f8', (3,))", "(2,)", bytes(48)), "header is damaged"),
        (npy_bytes("'<f8'", f"({'1,' * 70})", bytes(8)), "no arrays of its shape"),
        (npy_bytes("'<f8'", f"(0, {10**23})"), "no arrays of its shape"),
        (npy_bytes("'<f8'", f"({2**63 - 1}, 0)"), "no arrays of its shape"),
        (npy_bytes("'|u1'", f"(0, {10**9})"), "holds no points"),
        (npy_bytes("'|V0'", f"({2**63},)"), "values of no bytes"),
        (npy_bytes("'<U0'", f"({4 * 10**9}, 3)"), "values of no bytes"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**22) + b"1," * 2**21, "header is damaged"),
        (npy_bytes("'<q9'", "(2, 3)"), "header is damaged"),
        (npy_bytes("[('x',)]", "(2,)"), "header is damaged"),
        (npy_bytes("'<f8'", "(2, 3)", bytes(48), order="0"), "header is damaged"),
        (npy_bytes("(" * 500, "(2, 3)", bytes(48)), "header is damaged"),
        (npy_bytes("'|O'", "(2, 3)", bytes(48)), "Python objects"),
        (npy_bytes("'<f8'", "(6,)", bytes(48)), r"\(6,\) array of float64, not points"),
        (npy_bytes("'<f8'", "(3, 2)", bytes(48)), r"\(3, 2\) array"),
        (npy_bytes("'<c8'", "(2, 3)", bytes(48)), "complex64, not points"),
        (npy_bytes("'<U2'", "(2, 3)", bytes(48)), "not points"),
        (npy_bytes("[('x', '<f8'), ('y', '<f8')]", "(3,)", bytes(48)), "no numbers in a field 'z'"),
        (npy_bytes("[('points', '<U2', (3,))]", "(2,)", bytes(48)), "does not hold numbers"),
        (npy_bytes("'<f8'", "(0, 3)"), "holds no points"),
    ],
)
def test_damaged_npy(
    tmp_path: Path, data: bytes, expected: str, refused: Callable[..., None]
) -> None:
    refused(tmp_path / "a.npy", data, expected)


def test_points_in_columns_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 1000)))
    with pytest.raises(PdflowError, match=r"\(3, 1000\) array of float64.*transposed"):
        read(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.zeros((3, 9)))
    assert len(read(tmp_path / "b.npy").attributes) == 6


@pytest.mark.parametrize("size", [1, 3, 4])
def test_npy_of_any_kind_in_chunks(tmp_path: Path, size: int) -> None:
    table = np.zeros((2, 2), [("x", "f4"), ("y", "f4"), ("z", "f4"), ("w", "u2", (2,))])
    table["x"], table["w"] = [[1, 2], [3, 4]], np.arange(8).reshape(2, 2, 2)
    wide = np.arange(20, dtype=">i2").reshape(4, 5)
    for array in (table, np.asfortranarray(table), wide, np.asfortranarray(wide)):
        np.save(tmp_path / "a.npy", array)
        whole = read(tmp_path / "a.npy")
        with open_reader(tmp_path / "a.npy") as reader:
            assert (reader.header.count, reader.header.point_dtype) == (4, np.float32)
            chunks = list(reader.chunks(size))
        assert [len(chunk) for chunk in chunks] == [min(size, 4 - i) for i in range(0, 4, size)]
        joined = PointCloud.concatenate(chunks)
        np.testing.assert_array_equal(joined.points, whole.points)
        for name, values in whole.attributes.items():
            np.testing.assert_array_equal(joined.attributes[name], values)


@pytest.mark.parametrize("names", [(), ("intensity", "'shape': (0,"), ("x",), ("Höhe",)])
def test_npy_in_chunks_has_the_bytes_that_numpy_saves(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    points = np.random.default_rng(0).normal(size=(1234, 3))
    cloud = PointCloud(points, {name: np.arange(1234, dtype="u2") for name in names})
    with open_writer(tmp_path / "a.npy", Header.of(cloud)) as writer:
        for start in range(0, 1234, 100):
            writer.write(cloud[start : start + 100])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the newer NPY version for some names
        np.save(tmp_path / "b.npy", np.load(tmp_path / "a.npy"))
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    back = read(tmp_path / "a.npy")
    np.testing.assert_array_equal(back.points, points)
    assert list(back.attributes) == list(names)
