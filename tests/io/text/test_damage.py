"""Damaged text files: one sentence with the line, whatever the damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdflow import PointCloud, write

SUFFIXES = ("xyz", "txt", "asc", "csv", "pts")
ROWS = "0 0 0\n" * 16
quick = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
tokens = st.sampled_from(
    [*"0123xyzrgb,;.#%\"'\t\n-", "\r\n", "//", "nan", "1e5", "1.5", " ", "  ", "\n", "pdflow "]
)


def write_file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xyz", ROWS + "1 abc 2\n", "a.xyz, line 17: 'abc' is not a number: correct"),
        ("a.xyz", "# c\n\n" + ROWS + "1 2\n", "a.xyz, line 19: 2 values instead of 3"),
        ("a.xyz", ROWS + "1 2 3 4\n", "a.xyz, line 17: 4 values instead of 3"),
        ("a.xyz", ROWS + "1 2 3 # x\n", "line 17"),
        ("a.csv", "x,y,z\n1,2,3\n1,,3\n", "line 3: '' is not a number"),
        ("a.csv", "x,y,z,c\n1,2,3,tree\n", "line 2: 'tree' is not a number"),
        ("a.csv", "x,y,z,w\n1,2,3\n", "names 4 columns, but line 2 has 3 values"),
        ("a.xyz", "x y intensity\n1 2 3\n", "no column is called z"),
        ("a.xyz", "abc\ndef\n", "line 2: 'def' is not a number"),
        ("a.xyz", "1 2\n3 4\n", "line 1: 2 values, but a point needs at least 3"),
        ("a.xyz", "1 b 3\n", "line 1: 'b' is not a number"),
        ("a.xyz", "x y z\n", "holds no row of numbers"),
        ("a.xyz", "# only\n\n", "holds no row of numbers"),
        ("a.xyz", " \n", "holds no row of numbers"),
        ("a.xyz", b"\x00\x01\x02\xff" * 9, "is not text"),
        ("a.xyz", b"1 2 3\n4 5 6\n\x00", "is not text, because byte 12 is zero"),
        ("a.xyz", b"\xfe\xff\xfe" * 999, "a.xyz"),
        ("a.xyz", b"\xff\xd8\xff\xe0" * 99, "holds no row of numbers"),
        ("a.xyz", "1" * (1 << 21), "line 1: too long"),
        ("a.pts", "3\n0 0 0\n1 1 1\n", "has 2 rows, but its first line promises 3 points"),
        ("a.pts", "1\n0 0 0 1\n1 1 1 2\n", "has 2 rows, but its first line promises 1 points"),
        ("a.pts", "99999999999999999999\n0 0 0\n", "has 1 rows"),
        ("a.pts", "3\n", "holds no row of numbers"),
    ],
)
def test_damaged_files_give_one_sentence(
    tmp_path: Path, name: str, content: str | bytes, message: str, refused: Callable[..., None]
) -> None:
    refused(tmp_path / name, content, message)


def test_edited_values_that_no_longer_fit(tmp_path: Path, refused: Callable[..., None]) -> None:
    write(tmp_path / "a.xyz", PointCloud([[0, 0, 0]], {"a": np.array([7], np.uint8)}))
    text = (tmp_path / "a.xyz").read_text()
    for value, message in (("7.5", "'7.5' is not int64"), ("300", "column 'a' do not fit uint8")):
        refused(tmp_path / "b.xyz", text.replace(" 7\n", f" {value}\n"), message)


@quick
@given(st.lists(tokens).map("".join), st.sampled_from(SUFFIXES))
def test_text_that_is_almost_a_cloud(
    tmp_path: Path, read_or_refused: Callable[[Path], None], content: str, suffix: str
) -> None:
    if content:
        read_or_refused(write_file(tmp_path, f"a.{suffix}", content))


@quick
@given(st.binary(min_size=1), st.sampled_from(SUFFIXES))
def test_garbage(
    tmp_path: Path, read_or_refused: Callable[[Path], None], content: bytes, suffix: str
) -> None:
    read_or_refused(write_file(tmp_path, f"a.{suffix}", content))


@quick
@given(st.data(), st.sampled_from(SUFFIXES))
def test_cut_and_changed_files(
    tmp_path: Path,
    example_cloud: PointCloud,
    read_or_refused: Callable[[Path], None],
    data: st.DataObject,
    suffix: str,
) -> None:
    cloud = example_cloud[:4]
    cloud.metadata["las"] = {"vlr": b"\0"}
    write(tmp_path / f"a.{suffix}", cloud)
    content = bytearray((tmp_path / f"a.{suffix}").read_bytes())
    del content[data.draw(st.integers(1, len(content))) :]
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    read_or_refused(write_file(tmp_path, f"b.{suffix}", bytes(content)))
