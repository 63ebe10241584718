"""Coordinates in LAS, and chunks of any size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import laspy
import numpy as np
import pytest

from pdflow import PointCloud
from pdflow.errors import LossWarning, PdflowError
from pdflow.io import Header, open_reader, open_writer, read, write

LaspyCloud = Callable[..., laspy.LasData]
Same = Callable[..., None]
RawPoints = Callable[[Path], bytes]

# Coordinates


@pytest.mark.parametrize("extent", [1e-3, 1.0, 33.0, 430.0, 2e4, 9e4])
@pytest.mark.parametrize("where", [0.0, -7.7, 5.4e6])
def test_coordinates_keep_a_tenth_of_a_millimetre(
    tmp_path: Path, extent: float, where: float
) -> None:
    points = np.random.default_rng(0).uniform(0, extent, (500, 3)) + where
    write(tmp_path / "a.laz", PointCloud(points))
    step = max(min(1e-4, 1.2e-9 * extent), 2 * np.spacing(abs(where) + extent))
    assert np.abs(read(tmp_path / "a.laz").points - points).max() <= step / 2 + np.spacing(where)


@pytest.mark.parametrize("points", [np.zeros((2, 3)), np.full((1, 3), 4.5e6), np.eye(3) * 1e12])
def test_odd_extents(tmp_path: Path, points: np.ndarray) -> None:
    write(tmp_path / "a.las", PointCloud(points))
    size = np.abs(points).max()
    np.testing.assert_allclose(read(tmp_path / "a.las").points, points, atol=1e-9 * size)


def test_scale_of_the_file_is_kept(tmp_path: Path, laspy_cloud: LaspyCloud) -> None:
    laspy_cloud(3).write(tmp_path / "a.laz")
    cloud = read(tmp_path / "a.laz")
    moved = cloud.with_points(cloud.points + np.array([0.0004, 0.004, 0.00004]))
    write(tmp_path / "b.laz", moved)
    np.testing.assert_array_equal(read(tmp_path / "b.laz").points, cloud.points)


def test_offset_moves_before_digits_are_lost(tmp_path: Path, laspy_cloud: LaspyCloud) -> None:
    laspy_cloud(3).write(tmp_path / "a.laz")
    cloud = read(tmp_path / "a.laz")
    far = cloud.with_points(cloud.points + np.array([1e9, 0, 0]))
    with pytest.warns(LossWarning, match="with the offsets") as caught:
        write(tmp_path / "b.laz", far)
    assert len(caught) == 1
    again = read(tmp_path / "b.laz")
    assert again.metadata["las"]["scales"] == cloud.metadata["las"]["scales"]
    assert np.abs(again.points - far.points).max() <= 2e-7


def test_scale_grows_before_writing_fails(tmp_path: Path, laspy_cloud: LaspyCloud) -> None:
    laspy_cloud(3).write(tmp_path / "a.laz")
    cloud = read(tmp_path / "a.laz")
    wide = cloud.points.copy()
    wide[0, 0] += 1e9
    with pytest.warns(LossWarning, match="with the scales") as caught:
        write(tmp_path / "b.laz", cloud.with_points(wide))
    assert len(caught) == 1
    again = read(tmp_path / "b.laz")
    assert again.metadata["las"]["scales"] == [1.0, 0.01, 0.0001]
    assert np.abs(again.points - wide).max(0).tolist() <= [0.5, 0.0, 0.0]


@pytest.mark.parametrize("size", [20, 50])
def test_local_file_moved_to_utm_keeps_its_precision(tmp_path: Path, size: int) -> None:
    local = PointCloud(np.random.default_rng(0).uniform(0, 1, (50, 3)))
    write(tmp_path / "local.las", local)
    offset = np.array([5e5 + 0.1234, 5e6 + 0.4321, 0])

    def move() -> None:
        with (
            open_reader(tmp_path / "local.las") as reader,
            open_writer(tmp_path / "utm.las", reader.header) as writer,
        ):
            for chunk in reader.chunks(size):
                writer.write(chunk.with_points(chunk.points + offset))

    with pytest.warns(LossWarning, match="with the offsets"):
        move()
    assert np.abs(read(tmp_path / "utm.las").points - local.points - offset).max() < 1e-8


@pytest.mark.parametrize("kept", [True, False])
def test_coordinates_near_the_limit_of_float64(tmp_path: Path, kept: bool) -> None:
    write(tmp_path / "a.las", PointCloud(np.eye(3)))
    metadata = read(tmp_path / "a.las").metadata if kept else None
    with pytest.raises(PdflowError, match=r"as large as 1\.7e\+308"):
        write(tmp_path / "b.las", PointCloud(np.eye(3) * 1.7e308, None, metadata))
    assert not (tmp_path / "b.las").exists()


def test_values_too_large_for_their_bits_move_to_extra_bytes(
    tmp_path: Path, laspy_cloud: LaspyCloud
) -> None:
    laspy_cloud(3, "1.2").write(tmp_path / "a.las")
    cloud = read(tmp_path / "a.las")
    cloud.attributes["classification"] = np.arange(300).astype(np.uint8)
    write(tmp_path / "b.las", cloud)
    again = read(tmp_path / "b.las")
    assert again.metadata["las"]["point_format"] == 3
    np.testing.assert_array_equal(
        again.attributes["classification"], cloud.attributes["classification"]
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_coordinates_that_are_not_finite(tmp_path: Path, bad: float) -> None:
    with pytest.raises(PdflowError, match="NaN or infinite"):
        write(tmp_path / "a.las", PointCloud([[0, 0, bad]]))
    assert not list(tmp_path.iterdir())


# Chunks


@pytest.mark.parametrize("suffix", ["las", "laz"])
@pytest.mark.parametrize("size", [1, 7, 100, 300, 1000])
def test_chunks_of_any_size(
    tmp_path: Path,
    size: int,
    suffix: str,
    laspy_cloud: LaspyCloud,
    assert_same: Same,
    raw_points: RawPoints,
) -> None:
    source, target = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    made = laspy_cloud(8, extra=[laspy.ExtraBytesParams("a", "3f4")])
    made.evlrs = laspy.vlrs.vlrlist.VLRList([laspy.VLR("big", 3, "evlr", b"\1\2")])
    made.write(source)
    with open_reader(source) as reader:
        assert reader.header.count == 300
        chunks = list(reader.chunks(size))
        assert [len(c) for c in chunks] == [min(size, 300 - i) for i in range(0, 300, size)]
        assert_same(PointCloud.concatenate(chunks), read(source))
        for name, field in reader.header.fields.items():
            assert chunks[0].attributes[name].dtype == field.dtype
            assert chunks[0].attributes[name].shape[1:] == (field.width,)[: field.width]
        with open_writer(target, reader.header) as writer:
            for chunk in chunks:
                writer.write(chunk)
    assert_same(read(source), read(target))
    assert raw_points(source) == raw_points(target)


def test_reader_can_be_read_twice(tmp_path: Path, laspy_cloud: LaspyCloud) -> None:
    laspy_cloud(3).write(tmp_path / "a.laz")
    with open_reader(tmp_path / "a.laz") as reader:
        first = next(reader.chunks(10))
        np.testing.assert_array_equal(next(reader.chunks(10)).points, first.points)


@pytest.mark.parametrize("suffix", ["las", "laz"])
@pytest.mark.parametrize("count", [None, 400])
def test_chunks_that_grow_beyond_the_first(tmp_path: Path, count: int | None, suffix: str) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / f"a.{suffix}"
    chunks = [
        PointCloud(
            rng.uniform(-1, 1, (100, 3)) * 10.0**power + 5e5,
            {
                "return_number": rng.integers(0, limit, 100).astype(np.uint8),
                "colors": rng.integers(0, 256, (100, 3)).astype(np.uint8),
            },
            {"comments": ["a"]},
        )
        for power, limit in ((0, 8), (2, 16), (4, 200), (5, 7))
    ]
    whole = PointCloud.concatenate(chunks)
    header = Header(count, Header.of(whole).fields, whole.metadata)
    with open_writer(path, header) as writer:
        for chunk in chunks:
            writer.write(chunk)
    again = read(path)
    assert np.abs(again.points - whole.points).max() < 1e-2
    for name, values in whole.attributes.items():
        assert again.attributes[name].dtype == values.dtype
        np.testing.assert_array_equal(again.attributes[name], values)
    assert again.metadata["comments"] == ["a"]
    assert list(tmp_path.iterdir()) == [path]


def test_failing_block_leaves_no_file(tmp_path: Path) -> None:
    def stop() -> None:
        cloud = PointCloud(np.eye(3))
        with open_writer(tmp_path / "a.laz", Header.of(cloud)) as writer:
            writer.write(cloud)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stop()
    assert not list(tmp_path.iterdir())


def test_file_without_points(tmp_path: Path, laspy_cloud: LaspyCloud) -> None:
    for suffix in ("las", "laz"):
        path = tmp_path / f"a.{suffix}"
        laspy_cloud(3, count=0).write(path)
        with open_reader(path) as reader:
            assert reader.header.count == 0
            assert not list(reader.chunks())
        with pytest.raises(PdflowError, match="no points"):
            read(path)


def test_large_counts_go_to_version_1_4(tmp_path: Path, laspy_cloud: LaspyCloud) -> None:
    laspy_cloud(1, "1.2").write(tmp_path / "a.las")
    cloud = read(tmp_path / "a.las")
    header = Header(2**33, Header.of(cloud).fields, cloud.metadata)
    with open_writer(tmp_path / "b.las", header) as writer:
        writer.write(cloud)
    assert read(tmp_path / "b.las").metadata["las"]["version"] == "1.4"
