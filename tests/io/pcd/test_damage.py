"""Damaged PCD files: one sentence, whatever the damage."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pdflow import PointCloud, read, write
from pdflow.errors import PdflowError

TEXT = b"1 2 3\n4 5 6\n"


@pytest.mark.parametrize(
    ("changes", "body", "expected"),
    [
        (None, b"ply\n", "line 1 starts with 'ply'"),
        (None, b"# .PCD v.7\nVERSION .7\n", "ends at line 3 without DATA"),
        ({"VERSION": "0.9"}, TEXT, "VERSION in the PCD header is '0.9'"),
        ({"DATA": "zip"}, TEXT, "DATA in the PCD header is 'zip'"),
        ({"FIELDS": None}, TEXT, "FIELDS in the PCD header is 'missing'"),
        ({"FIELDS": "x y w"}, TEXT, "no field z, only x, y, w"),
        ({"FIELDS": "x y"}, TEXT, "SIZE in the PCD header is '4 4 4' instead of 2"),
        ({"SIZE": "4 4 3"}, TEXT, "TYPE in the PCD header is 'F F F'"),
        ({"SIZE": "4 4 four"}, TEXT, "SIZE in the PCD header"),
        ({"SIZE": "4 4 0_4"}, TEXT, "SIZE in the PCD header"),
        ({"VIEWPOINT": "0 0 0 1_0 0 0 0"}, TEXT, "VIEWPOINT in the PCD header"),
        ({"TYPE": "F F Q"}, TEXT, "TYPE in the PCD header"),
        ({"COUNT": "1 1 0"}, TEXT, "COUNT in the PCD header"),
        ({"WIDTH": "two"}, TEXT, "WIDTH in the PCD header"),
        ({"WIDTH": "-2"}, TEXT, "WIDTH in the PCD header"),
        ({"WIDTH": None, "POINTS": None}, TEXT, "WIDTH in the PCD header is 'missing'"),
        ({"POINTS": "3"}, TEXT, "POINTS in the PCD header is '3' instead of WIDTH times HEIGHT"),
        ({"VIEWPOINT": "0 0 0"}, TEXT, "VIEWPOINT in the PCD header"),
        ({"WIDTH": "0", "POINTS": "0"}, TEXT, "holds no points"),
        ({"WIDTH": "3", "POINTS": "3"}, TEXT, "promises 3 points .3 rows., but the file holds 2"),
        ({"WIDTH": "1", "POINTS": "1"}, TEXT, "promises 1 points .1 rows., but the file holds 2"),
        ({"WIDTH": str(10**15), "POINTS": None}, TEXT, "3000000000000000 values"),
        ({"COUNT": f"1 1 {10**15}"}, TEXT, "promises 2 points"),
        ({}, b"1 2 3\n4 five 6\n", "line 13: 'five' is not a number"),
        ({}, b"1 2 3\n4 5\n", "line 13: 2 values instead of 3"),
        ({"TYPE": "F F U", "SIZE": "4 4 1"}, b"1 2 3\n4 5 256\n", "field z do not fit uint8"),
        ({"DATA": "binary"}, bytes(23), "24 bytes., but the file holds 23"),
        ({"DATA": "binary"}, bytes(36), "24 bytes., but the file holds 36"),
        ({"DATA": "binary", "WIDTH": str(10**15), "POINTS": None}, bytes(24), "promises 10{15}"),
        ({"DATA": "binary_compressed"}, b"", "24 bytes., but the file holds 0"),
        ({"DATA": "binary_compressed"}, struct.pack("<II", 9, 24) + bytes(8), "truncated"),
        ({"DATA": "binary_compressed"}, struct.pack("<II", 4, 25) + bytes(4), "holds 25"),
        ({"DATA": "binary_compressed"}, struct.pack("<II", 4, 24) + bytes(4), "LZF data"),
    ],
)
def test_damaged_files_give_one_sentence(
    tmp_path: Path,
    changes: dict[str, str | None] | None,
    body: bytes,
    expected: str,
    header: Callable[..., bytes],
    refused: Callable[..., None],
) -> None:
    head = b"" if changes is None else header(**changes)
    refused(tmp_path / "cloud.pcd", head + body, expected)


def test_few_bytes_after_binary_points_are_ignored(
    tmp_path: Path, header: Callable[..., bytes]
) -> None:
    (tmp_path / "a.pcd").write_bytes(header(DATA="binary") + bytes(24) + b"\n")
    assert len(read(tmp_path / "a.pcd")) == 2


def test_zeros_that_fill_the_last_page_are_not_points(tmp_path: Path) -> None:
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
