"""What every format promises for bad input: one sentence with the name of the file.

Damaged bytes raise PdflowError and no other exception, and a header alone never makes a reader
allocate memory. A file with changed values may also be valid.
"""

from __future__ import annotations

import json
import re
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdflow import PointCloud, TriangleMesh, read, read_mesh, write, write_mesh
from pdflow.errors import PdflowError
from pdflow.io import FORMATS, Format, find_format

M = 7
each_format = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
VARIANTS = {
    "ply-ascii": ("ply", {"ply": {"format": "ascii"}}),
    "ply-big-endian": ("ply", {"ply": {"format": "binary_big_endian"}}),
    "pcd-ascii": ("pcd", {"pcd": {"data": "ascii"}}),
    "pcd-compressed": ("pcd", {"pcd": {"data": "binary_compressed"}}),
}
each_kind = pytest.mark.parametrize("kind", [*(fmt.name for fmt in FORMATS), *VARIANTS])
FROM_BYTES = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
TEXT = ("xyz", "csv", "pts", "off", "obj", "ply-ascii", "pcd-ascii")
"""Formats whose files may end anywhere: a number without its last digits is still a number."""

TEXT_MODULE = find_format(Path("a.xyz")).module
CLOUD = PointCloud(
    np.random.default_rng(0).normal(size=(M, 3)),
    {
        "colors": np.arange(3 * M, dtype=np.uint8).reshape(M, 3),
        "intensity": np.arange(M, dtype=np.uint16),
    },
)
TETRAHEDRON = TriangleMesh(
    [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.5]], [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]
)


def format_of(kind: str) -> Format:
    name = VARIANTS[kind][0] if kind in VARIANTS else kind
    return next(fmt for fmt in FORMATS if fmt.name == name)


@cache
def good_bytes(kind: str) -> bytes:
    """A small valid file of this format."""
    fmt = format_of(kind)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"good{fmt.suffixes[0]}"
        if fmt.points:
            metadata = VARIANTS[kind][1] if kind in VARIANTS else {}
            write(path, PointCloud(CLOUD.points, CLOUD.attributes, metadata))
        else:
            write_mesh(path, TETRAHEDRON)
        return path.read_bytes()


def try_reading(path: Path, data: bytes) -> str | None:
    """The error message for these bytes, or None if they can be read."""
    path.write_bytes(data)
    reader = read if find_format(path).points else read_mesh
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reader(path)
        except PdflowError as error:
            message = str(error)
        else:
            return None
    assert path.name in message, message
    assert "\n" not in message, message
    assert len(message) < 400 + len(str(path)), message
    assert "Traceback" not in message, message
    return message


def path_for(kind: str, folder: Path) -> Path:
    return folder / f"bad_file{format_of(kind).suffixes[0]}"


# Bytes


@each_kind
def test_valid_file_is_read(kind: str, tmp_path: Path) -> None:
    assert try_reading(path_for(kind, tmp_path), good_bytes(kind)) is None


@each_format
@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\n", b"x", b"\xff\xfe", b"\n" * 5000, bytes(5000), b"garbage " * 500]
)
def test_files_without_content(fmt: Format, tmp_path: Path, data: bytes) -> None:
    assert try_reading(path_for(fmt.name, tmp_path), data) is not None


@each_format
def test_file_of_another_format(fmt: Format, tmp_path: Path) -> None:
    for other in FORMATS:
        message = try_reading(path_for(fmt.name, tmp_path), good_bytes(other.name))
        if other.module != fmt.module and TEXT_MODULE not in (other.module, fmt.module):
            assert message is not None, f"{other.name} reads as {fmt.name}"


@each_kind
def test_every_truncation(kind: str, tmp_path: Path) -> None:
    data = good_bytes(kind)
    n = len(data)
    places = {*range(0, n, max(1, n // 150)), *range(min(40, n)), *range(n - 20, n)}
    for place in sorted(places):
        message = try_reading(path_for(kind, tmp_path), data[:place])
        if kind not in TEXT:
            assert message is not None, f"{place} of {n} bytes can be read"


@each_kind
@FROM_BYTES
@given(data=st.data())
def test_changed_bytes(kind: str, tmp_path: Path, data: st.DataObject) -> None:
    changed = bytearray(good_bytes(kind))
    places = st.integers(0, len(changed) - 1) | st.integers(0, min(400, len(changed) - 1))
    for place, value in data.draw(
        st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4)
    ):
        changed[place] = value
    try_reading(path_for(kind, tmp_path), bytes(changed))


@each_kind
@FROM_BYTES
@given(data=st.data())
def test_cut_and_repeated_bytes(kind: str, tmp_path: Path, data: st.DataObject) -> None:
    good = good_bytes(kind)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(good))] * 2)))
    times = data.draw(st.sampled_from([0, 2, 3]))
    try_reading(path_for(kind, tmp_path), good[:start] + good[start:end] * times + good[end:])


NUMBERS = [b"1", b"-2.5", b"1e400", b"nan", b"-inf", b"99999999999999999999", b"0x1p3", b"1_0"]
WORDS = st.sampled_from([*NUMBERS, b"x", b"-", b".", b",", b";", b"#", b"//", b'"', b"\xe4", b"\t"])


@pytest.mark.parametrize("kind", TEXT)
@FROM_BYTES
@given(rows=st.lists(st.lists(WORDS, max_size=6), max_size=6), start=st.integers(0, 400))
def test_any_text(kind: str, tmp_path: Path, rows: list[list[bytes]], start: int) -> None:
    text = b"\n".join(b" ".join(row) for row in rows)
    try_reading(path_for(kind, tmp_path), good_bytes(kind)[:start] + text)


WIDTHS = st.sampled_from([0, 1, 2, -1, 10**30, float("inf"), float("nan"), None, "3", [0], True])
DTYPES = st.sampled_from(["|b1", "<f4", "(u1", ",", "<u9", "O", "<M8[x]", "|S9999999999", None, 7])
NAMES = st.sampled_from([["flag"], ["x"], ["flag", "flag"], [[1]], [], "flag", 5, None, {}])
NOTES = st.fixed_dictionaries({"columns": NAMES, "dtype": DTYPES, "width": WIDTHS})


@pytest.mark.parametrize("kind", ["ply", "xyz", "csv", "pts", "pcd"])
@FROM_BYTES
@given(note=NOTES | st.sampled_from([None, 3, [], {"columns": ["flag"]}]))
def test_notes_on_attributes(kind: str, tmp_path: Path, note: object) -> None:
    path = path_for(kind, tmp_path)
    write(path, PointCloud(CLOUD.points, {"flag": np.arange(M) % 2 == 0}))
    head, _, rest = path.read_bytes().partition(b"pdflow columns ")
    changed = json.dumps({"attributes": {"flag": note}}).encode()
    try_reading(path, head + b"pdflow columns " + changed + b"\n" + rest.partition(b"\n")[2])


# Counts in the header


def edit_npy(data: bytes, count: int) -> bytes:
    """The shape of an NPY array changed, its header padded to the same length."""
    start, end = 10, data.index(b"\n")
    header = re.sub(rb"\(7,(?: 3)?\)", b"(%d,)" % count, data[start:end]).rstrip()
    return data[:start] + header.ljust(end - start) + data[end:]


def edit_npz(data: bytes, count: int) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.npz"
        path.write_bytes(data)
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        points = members["points.npy"]
        end = points.index(b"\n")
        header = points[10:end].replace(b"(7, 3)", b"(%d, 3)" % count).rstrip()
        members["points.npy"] = points[:10] + header.ljust(end - 10) + points[end:]
        with zipfile.ZipFile(path, "w") as archive:
            for name, member in members.items():
                archive.writestr(name, member)
        return path.read_bytes()


def edit_las(data: bytes, count: int) -> bytes:
    """Both counts of the header: the 32-bit one, and the 64-bit one of LAS 1.4."""
    data = data[:107] + struct.pack("<I", min(count, 2**32 - 1)) + data[111:]
    if data[25] >= 4:
        data = data[:247] + struct.pack("<Q", count) + data[255:]
    return data


def edit_ply(data: bytes, count: int) -> bytes:
    return data.replace(b"element vertex 7", b"element vertex %d" % count)


def edit_pcd(data: bytes, count: int) -> bytes:
    for keyword in (b"WIDTH", b"POINTS"):
        data = data.replace(b"%s 7" % keyword, b"%s %d" % (keyword, count))
    return data


COUNTS: dict[str, Callable[[bytes, int], bytes]] = {
    **dict.fromkeys(["ply", "ply-ascii", "ply-big-endian"], edit_ply),
    **dict.fromkeys(["pcd", "pcd-ascii", "pcd-compressed"], edit_pcd),
    "pts": lambda data, n: re.sub(rb"(?m)^7$", b"%d" % n, data, count=1),
    "las": edit_las,
    "laz": edit_las,
    "npy": edit_npy,
    "npz": edit_npz,
    "off": lambda data, n: data.replace(b"\n4 4 0", b"\n%d 4 0" % n),
    "stl": lambda data, n: data[:80] + struct.pack("<I", min(n, 2**32 - 1)) + data[84:],
}


@pytest.mark.parametrize("kind", COUNTS)
@pytest.mark.parametrize("count", [0, 1, M - 1, M + 1, 1000, 10**9, 10**15])
def test_wrong_counts_are_refused_without_allocating_memory(
    kind: str, count: int, tmp_path: Path
) -> None:
    path = path_for(kind, tmp_path)
    good = good_bytes(kind)
    data = COUNTS[kind](good, count)
    assert data != good
    try_reading(path, good)  # so that the peak excludes imports
    tracemalloc.start()
    try:
        message = try_reading(path, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert message is not None, "a file with a wrong count can be read"
    assert peak < 50e6, f"{peak / 1e6:.0f} MB for a file of {len(data)} bytes"


# Text instead of numbers, and files without points


@pytest.mark.parametrize("kind", TEXT)
def test_text_instead_of_numbers(kind: str, tmp_path: Path) -> None:
    lines = good_bytes(kind).decode().splitlines()
    place = max(i for i, line in enumerate(lines) if "." in line and line[0] not in "#/")
    lines[place] = lines[place].replace(".", "o", 1)
    message = try_reading(path_for(kind, tmp_path), "\n".join(lines).encode())
    assert message is not None
    assert f"line {place + 1}" in message


NO_POINTS = {
    "ply": b"ply\nformat ascii 1.0\nelement vertex 0\nproperty float x\nproperty float y\n"
    b"property float z\nend_header\n",
    "xyz": b"# x y z\n",
    "csv": b"x,y,z\n",
    "pts": b"0\n",
    "pcd": b"VERSION .7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 0\nHEIGHT 1\nDATA binary\n",
    "off": b"OFF\n0 0 0\n",
    "obj": b"# nothing\n",
    "stl": bytes(84),
}


@pytest.mark.parametrize("kind", NO_POINTS)
def test_no_points(kind: str, tmp_path: Path) -> None:
    assert try_reading(path_for(kind, tmp_path), NO_POINTS[kind]) is not None


@pytest.mark.parametrize("fmt", [f for f in FORMATS if f.points], ids=lambda fmt: fmt.name)
def test_points_that_are_not_finite(fmt: Format, tmp_path: Path) -> None:
    path = tmp_path / f"cloud{fmt.suffixes[0]}"
    points = CLOUD.points.copy()
    points[2] = [np.nan, np.inf, -np.inf]
    if fmt.name in ("las", "laz"):  # whose integers have no NaN
        with pytest.raises(PdflowError):
            write(path, PointCloud(points))
        assert list(tmp_path.iterdir()) == []
    else:
        write(path, PointCloud(points))
        np.testing.assert_array_equal(read(path).points, points)
