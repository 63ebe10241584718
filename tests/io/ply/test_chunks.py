"""PLY in chunks: the same cloud, a header with room for the count, little memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, open_reader, open_writer, read, write
from pdflow.errors import LossWarning
from pdflow.io import Field, Header
from pdflow.io.ply.header import LINE_LIMIT

FORMATS = ("ascii", "binary_little_endian", "binary_big_endian")
Same = Callable[[PointCloud, PointCloud], None]


@pytest.mark.parametrize("size", [1, 7, 20, 1000])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("known", [True, False])
def test_chunks(
    tmp_path: Path,
    size: int,
    format: str,
    known: bool,
    same_tree: Callable[[Any, Any], None],
    same_attributes: Same,
    example_cloud: PointCloud,
) -> None:
    cloud = example_cloud
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
            same_attributes(PointCloud.concatenate(chunks), cloud)
            same_tree(chunks[-1].metadata, cloud.metadata)


def test_fewer_points_than_announced(
    tmp_path: Path, same_attributes: Same, example_cloud: PointCloud
) -> None:
    cloud = example_cloud
    with open_writer(tmp_path / "a.ply", Header.of(cloud)) as writer:
        writer.write(cloud[:7])
    same_attributes(read(tmp_path / "a.ply"), cloud[:7])


def test_header_lines_stay_short_enough_for_other_parsers(
    tmp_path: Path, example_cloud: PointCloud
) -> None:
    cloud = example_cloud
    cloud.metadata["comments"] = ["long " * 300 + "."]
    with open_writer(tmp_path / "a.ply", Header.of(cloud)) as writer:
        writer.write(cloud)
    header = (tmp_path / "a.ply").read_bytes().split(b"end_header\n")[0]
    assert max(map(len, header.split(b"\n"))) <= LINE_LIMIT + len("comment ")
    assert read(tmp_path / "a.ply").metadata["comments"] == cloud.metadata["comments"]


def test_chunked_reading_holds_one_chunk(
    tmp_path: Path, memory_in_chunks: Callable[[Path, int], tuple[int, int]]
) -> None:
    count = 200_000
    write(tmp_path / "a.ply", PointCloud(np.random.default_rng(0).normal(size=(count, 3))))
    total, peak = memory_in_chunks(tmp_path / "a.ply", 1000)
    assert total == count
    assert peak < count * 24 / 4


def test_chunks_beyond_the_float32_of_their_header_give_a_warning(tmp_path: Path) -> None:
    cloud = PointCloud(np.arange(30.0).reshape(10, 3))
    write(tmp_path / "near.ply", cloud)

    def move(offset: float) -> None:
        with (
            open_reader(tmp_path / "near.ply") as reader,
            open_writer(tmp_path / "far.ply", reader.header) as writer,
        ):
            for chunk in reader.chunks(4):
                writer.write(chunk.with_points(chunk.points + offset))

    move(0.1)  # rounds too little to matter
    with pytest.warns(LossWarning, match=r"single precision \(it moves them by up to 0\.1\)"):
        move(5e6 + 0.1)


def test_field_order_of_the_header(tmp_path: Path) -> None:
    fields = {"b": Field(np.dtype("f4")), "a": Field(np.dtype("i8"), 2)}
    with open_writer(tmp_path / "a.ply", Header(None, fields)) as writer:
        writer.write(
            PointCloud([[0, 0, 0]], {"b": np.zeros(1, np.float32), "a": np.array([[1, 2]])})
        )
    with open_reader(tmp_path / "a.ply") as reader:
        assert reader.header.fields == fields


@pytest.mark.parametrize("format", FORMATS)
def test_other_software_reads_a_padded_header(
    tmp_path: Path, format: str, example_cloud: PointCloud
) -> None:
    trimesh = pytest.importorskip("trimesh")
    cloud = example_cloud
    cloud.metadata["ply"] = {"format": format}
    header = Header.of(cloud)
    with open_writer(tmp_path / "a.ply", Header(None, header.fields, cloud.metadata)) as writer:
        writer.write(cloud)
    loaded = trimesh.load(tmp_path / "a.ply")
    np.testing.assert_array_equal(loaded.vertices, cloud.points)
    np.testing.assert_array_equal(loaded.colors[:, :3], cloud.attributes["colors"])
