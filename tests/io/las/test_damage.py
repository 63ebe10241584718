"""Damaged LAS files: one sentence, whatever the damage."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path

import laspy
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdflow import PointCloud
from pdflow.errors import MissingExtraError, PdflowError
from pdflow.io import open_reader, read, write

LaspyCloud = Callable[..., laspy.LasData]

WKT = 'PROJCS["UTM zone 32N",GEOGCS["ETRS89"],UNIT["metre",1],AUTHORITY["EPSG","25832"]]'


def complaint(path: Path, data: bytes) -> str:
    """The error message for these bytes, or the name of the file if they are valid."""
    path.write_bytes(data)
    try:
        read(path)
    except PdflowError as error:
        return str(error)
    return str(path)


@pytest.mark.parametrize("suffix", ["las", "laz"])
def test_truncated_anywhere(tmp_path: Path, suffix: str, laspy_cloud: LaspyCloud) -> None:
    path = tmp_path / f"a.{suffix}"
    made = laspy_cloud(3, extra=[laspy.ExtraBytesParams("a", "u2")])
    made.evlrs = laspy.vlrs.vlrlist.VLRList([laspy.VLR("big", 3, "evlr", b"\1" * 100)])
    made.write(path)
    data = path.read_bytes()
    for end in {*range(1, 900, 31), *range(900, len(data), 997), len(data) - 1}:
        path.write_bytes(data[:end])
        with pytest.raises(PdflowError, match=r"a\.la"):
            read(path)


@pytest.mark.parametrize("point_format", range(6, 11))
def test_layers_beyond_their_chunk_are_refused_when_opened(
    tmp_path: Path, point_format: int, laspy_cloud: LaspyCloud
) -> None:
    path = tmp_path / "a.laz"
    made = laspy_cloud(point_format, extra=[laspy.ExtraBytesParams("a", "u2")])
    made.scanner_channel[:] = 0
    made.write(path)
    assert len(read(path)) == len(made)
    data = bytearray(path.read_bytes())
    (start,) = struct.unpack("<I", data[96:100])
    (record,) = struct.unpack("<H", data[105:107])
    layers = {6: 9, 7: 10, 8: 11, 9: 10, 10: 12}[point_format] + 2
    for layer in range(layers):
        damaged = bytearray(data)
        place = start + 8 + record + 4 + 4 * layer
        damaged[place : place + 4] = b"\xff\xff\xff\xff"
        path.write_bytes(damaged)
        with pytest.raises(PdflowError, match="layers of its compressed chunk 0"):
            open_reader(path)


@pytest.mark.parametrize("suffix", ["las", "laz"])
def test_counts_beyond_the_file_are_refused_when_opened(
    tmp_path: Path, suffix: str, laspy_cloud: LaspyCloud
) -> None:
    path = tmp_path / f"a.{suffix}"
    laspy_cloud(6).write(path)
    data = bytearray(path.read_bytes())
    data[247:255] = struct.pack("<Q", 2**50)
    path.write_bytes(data)
    with pytest.raises(PdflowError, match="promises 1125899906842624 points"):
        open_reader(path)


def test_chunk_table_beyond_the_file_is_refused(tmp_path: Path, laspy_cloud: LaspyCloud) -> None:
    path = tmp_path / "a.laz"
    laspy_cloud(3, "1.2").write(path)
    data = bytearray(path.read_bytes())
    (points,) = struct.unpack_from("<I", data, 96)
    (table,) = struct.unpack_from("<q", data, points)
    data[table + 4 : table + 8] = b"\xff\xff\xff\x7f"
    path.write_bytes(data)
    with pytest.raises(PdflowError, match="truncated or damaged"):
        open_reader(path)


@pytest.mark.parametrize("point_format", [3, 7])
def test_erased_blocks_do_not_crash_the_decoder(
    tmp_path: Path, point_format: int, laspy_cloud: LaspyCloud
) -> None:
    path = tmp_path / "a.laz"
    laspy_cloud(point_format, count=2000).write(path)
    data = bytearray(path.read_bytes())
    data[2048:6144] = b"\xff" * 4096
    path.write_bytes(data)
    with pytest.raises(PdflowError, match="damaged"):
        read(path)


@pytest.mark.parametrize("attributes", [{}, {"classification": np.zeros(50_000, np.uint8)}])
def test_counters_that_run_down_are_not_damage(
    tmp_path: Path, attributes: dict[str, np.ndarray]
) -> None:
    down = np.stack([-np.arange(50_000)] * 3, 1)
    cloud = PointCloud(np.zeros((50_000, 3)), {"down": down, **attributes})
    write(tmp_path / "a.laz", cloud)
    np.testing.assert_array_equal(read(tmp_path / "a.laz").attributes["down"], down)


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    places=st.lists(st.tuples(st.integers(0, 900), st.integers(0, 255)), min_size=1, max_size=6),
    suffix=st.sampled_from(["las", "laz"]),
)
def test_any_damaged_header_gives_one_sentence(
    tmp_path: Path,
    places: list[tuple[int, int]],
    suffix: str,
    laspy_cloud: LaspyCloud,
) -> None:
    source = tmp_path / f"source.{suffix}"
    if not source.exists():
        made = laspy_cloud(6, count=20, extra=[laspy.ExtraBytesParams("a", "u2")])
        made.vlrs.append(laspy.vlrs.known.WktCoordinateSystemVlr(WKT))
        made.write(source)
    data = bytearray(source.read_bytes())
    for place, value in places:
        data[place % len(data)] = value
    message = complaint(tmp_path / f"a.{suffix}", bytes(data))
    assert f"a.{suffix}" in message
    assert "\n" not in message


def test_not_a_las_file(tmp_path: Path) -> None:
    path = tmp_path / "a.las"
    for data in (b"LASF", b"ply\nformat ascii 1.0\n" * 20, b"LASF" + bytes(400)):
        path.write_bytes(data)
        with pytest.raises(PdflowError, match=r"a\.las"):
            read(path)


def test_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, laspy_cloud: LaspyCloud
) -> None:
    laspy_cloud(0, "1.2").write(tmp_path / "a.laz")
    laspy_cloud(0, "1.2").write(tmp_path / "a.las")
    monkeypatch.setitem(sys.modules, "lazrs", None)
    with pytest.raises(MissingExtraError, match=r"Reading LAZ .*\[las\]"):
        read(tmp_path / "a.laz")
    cloud = read(tmp_path / "a.las")
    with pytest.raises(MissingExtraError, match=r"Writing LAZ .*\[las\]"):
        write(tmp_path / "b.laz", cloud)
    write(tmp_path / "b.las", cloud)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.las", "a.laz", "b.las"]
