"""Damaged PLY files: one sentence, whatever the damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

HEAD = "ply\nformat {} 1.0\n"
XYZ = "property float x\nproperty float y\nproperty float z\n"
VERTEX = f"element vertex 2\n{XYZ}"
BINARY = HEAD.format("binary_little_endian")
ASCII = HEAD.format("ascii")
FACES = f"{VERTEX}element face 2\nproperty list char int vertex_indices\nend_header\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"plyx\n", "not a PLY file"),
        (b"\x89PNG", "not a PLY file"),
        (b"ply\n", "no 'end_header'"),
        (b"ply\ngarbage\nend_header\n", "line 2: 'garbage' does not belong"),
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
        (f"{ASCII}{VERTEX}end_header\n1 2 3\n\n1 2\n".encode(), "line 10: 2 values instead of 3"),
        (
            f"{ASCII}{VERTEX}end_header\n1 2 3\n1 2 3\n4 5 6\n".encode(),
            "line 10: there are more rows",
        ),
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
            "'red' of element 'vertex' has a value that is not uchar",
        ),
        (b"ply\ncomment " + b"x" * (1 << 21), "line 2: too long"),
    ],
)
def test_damaged_files_give_one_sentence(
    tmp_path: Path, content: bytes, message: str, refused: Callable[..., None]
) -> None:
    refused(tmp_path / "bad.ply", content, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{BINARY}{FACES}".encode() + bytes(24) + b"\xff\0", "a list of length -1"),
        (f"{BINARY}{FACES}".encode() + bytes(24) + b"\x7f\0", "ends before the 2 rows of element"),
        (f"{BINARY}{FACES}".encode() + bytes(24) + b"\x01\0\0\0\0", "ends before"),
        (f"{BINARY}{FACES}".encode() + bytes(24) + b"\x01\0\0\0\0\x02\0", "ends before"),
        (f"{ASCII}{FACES}0 0 0\n1 1 1\n1 0\n".encode(), "ends before the 2 rows of element 'face'"),
        (
            f"{ASCII}{FACES}0 0 0\n1 1 1\n1 0\n-1 0\n".encode(),
            "line 13: this is not a row of element 'face'",
        ),
        (
            f"{ASCII}{FACES}0 0 0\n1 1 1\n1 0\n3 0 1\n".encode(),
            "line 13: this is not a row of element 'face'",
        ),
        (
            f"{ASCII}{FACES}0 0 0\n1 1 1\n1 0\n1 0 1\n".encode(),
            "line 13: this is not a row of element 'face'",
        ),
        (
            f"{ASCII}{FACES}0 0 0\n1 1 1\n1.5 0\n1 0\n".encode(),
            "line 12: this is not a row of element 'face'",
        ),
        (
            f"{ASCII}{FACES}0 0 0\n1 1 1\n1 a\n1 0\n".encode(),
            "line 12: this is not a row of element 'face'",
        ),
        (f"{ASCII}{FACES}0 0 0\n1 1 1\n1 0.5\n1 0\n".encode(), "has a value that is not int"),
        (f"{ASCII}{FACES}0 0 0\n1 1 1\n1 0\n1 0\n9\n".encode(), "line 14: there are more rows"),
    ],
)
def test_damaged_lists_give_one_sentence(
    tmp_path: Path, content: bytes, message: str, refused: Callable[..., None]
) -> None:
    refused(tmp_path / "bad.ply", content, message)


def test_no_points_at_all(tmp_path: Path, refused: Callable[..., None]) -> None:
    content = f"{BINARY}element vertex 0\n{XYZ}end_header\n"
    refused(tmp_path / "a.ply", content, "holds no points")


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.sampled_from([*ASCII.split("\n"), *FACES.split("\n"), "1 2 3", "3 0 0 0"])))
@example(["ply", "format ascii 1.0", "element vertex 1", "property float x", "end_header"])
def test_shuffled_headers_give_no_other_error(
    tmp_path: Path, read_or_refused: Callable[[Path], None], lines: list[str]
) -> None:
    (tmp_path / "a.ply").write_text("\n".join(["ply", *lines]))
    read_or_refused(tmp_path / "a.ply")
