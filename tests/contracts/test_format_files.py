"""What every point format promises of its files: names, chunks, and all or nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, open_reader, open_writer, read, write
from pdflow.errors import PdflowError
from pdflow.io import FORMATS, Format, Header

each_format = pytest.mark.parametrize(
    "fmt", [fmt for fmt in FORMATS if fmt.points], ids=lambda fmt: fmt.name
)
Points = Callable[[Format, PointCloud, PointCloud], None]
Hear = Callable[[Path, PointCloud, Format], str]
Same = Callable[[Any, Any], bool]
SameCloud = Callable[[PointCloud, PointCloud], None]


@each_format
def test_every_suffix_in_upper_case(fmt: Format, tmp_path: Path) -> None:
    points = np.arange(12.0).reshape(4, 3)
    for suffix in fmt.suffixes:
        path = tmp_path / f"CLOUD{suffix.upper()}"
        write(path, PointCloud(points))
        np.testing.assert_array_equal(read(path).points, points)


@each_format
@pytest.mark.parametrize("name", ["cloud", "cloud.data", "cloud.docx"])
def test_format_by_name(fmt: Format, name: str, tmp_path: Path, same_values: Same) -> None:
    plain, path = tmp_path / f"cloud{fmt.suffixes[0]}", tmp_path / name
    cloud = PointCloud(np.arange(12.0).reshape(4, 3), {"intensity": np.arange(4, dtype="u2")})
    write(plain, cloud)
    write(path, cloud, format=fmt.name)
    back = read(path, format=fmt.name)
    np.testing.assert_array_equal(back.points, cloud.points)
    assert same_values(back.attributes["intensity"], cloud.attributes["intensity"])
    if fmt.name not in ("las", "laz", "e57"):  # whose headers hold the date and an id
        assert path.read_bytes() == plain.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([plain.name, name])


# Chunks


@each_format
@pytest.mark.parametrize("size", [1, 7, 10, 11])
def test_reading_in_chunks_gives_the_whole(
    fmt: Format,
    size: int,
    tmp_path: Path,
    rich_cloud: PointCloud,
    write_and_hear: Hear,
    same: Same,
    assert_same_cloud: SameCloud,
) -> None:
    path, count = tmp_path / f"cloud{fmt.suffixes[0]}", len(rich_cloud)
    write_and_hear(path, rich_cloud, fmt)
    whole = read(path)
    with open_reader(path) as reader:
        header = reader.header
        chunks = list(reader.chunks(size))
    assert [len(chunk) for chunk in chunks] == [min(size, count - i) for i in range(0, count, size)]
    assert_same_cloud(PointCloud.concatenate(chunks), whole)
    assert all(same(chunk.metadata, whole.metadata) for chunk in chunks)
    assert header.count in (None, count)
    assert header.fields == Header.of(whole).fields
    assert list(header.fields) == list(whole.attributes)
    assert same(header.metadata, whole.metadata)


@each_format
@pytest.mark.parametrize("size", [1, 7, 10])
@pytest.mark.parametrize("known", [True, False])
def test_writing_in_chunks_gives_the_whole(
    fmt: Format,
    size: int,
    known: bool,
    tmp_path: Path,
    rich_cloud: PointCloud,
    write_and_hear: Hear,
    assert_points: Points,
    assert_same_cloud: SameCloud,
) -> None:
    # The widest integers are left out: without seeing all values, a format that has no room for
    # them must refuse what it would have written.
    cloud = rich_cloud
    del cloud.attributes["label_i8"], cloud.attributes["label_u8"]
    whole, parts = (tmp_path / f"{name}{fmt.suffixes[0]}" for name in ("whole", "parts"))
    warning = write_and_hear(whole, cloud, fmt)
    header = replace(Header.of(cloud), count=len(cloud) if known else None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with open_writer(parts, header) as writer:
            for start in range(0, len(cloud), size):
                writer.write(cloud[start : start + size])
    assert [str(w.message) for w in caught] == ([warning] if warning else [])
    first, second = read(whole), read(parts)
    if fmt.name in ("las", "laz"):  # the first points decide the offset
        assert_points(fmt, cloud, second)
        second = second.with_points(first.points)
        for back in (first, second):
            back.metadata["las"] = {}
    assert_same_cloud(first, second)


@each_format
def test_header_may_count_more_points_than_come(
    fmt: Format, tmp_path: Path, plain_cloud: PointCloud, same_values: Same, assert_points: Points
) -> None:
    path = tmp_path / f"cloud{fmt.suffixes[0]}"
    with open_writer(path, Header.of(plain_cloud)) as writer:
        writer.write(plain_cloud[:6])
    back = read(path)
    assert_points(fmt, plain_cloud[:6], back)
    assert same_values(back.attributes["colors"], plain_cloud.attributes["colors"][:6])


# All or nothing


@each_format
def test_error_between_chunks_leaves_the_old_file(
    fmt: Format, tmp_path: Path, plain_cloud: PointCloud
) -> None:
    path = tmp_path / f"cloud{fmt.suffixes[0]}"
    write(path, plain_cloud)
    before = path.read_bytes()

    def fail_half_way() -> None:
        with open_writer(path, Header.of(plain_cloud)) as writer:
            writer.write(plain_cloud[:5])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_half_way()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@each_format
def test_chunks_must_have_the_attributes_of_the_header(
    fmt: Format, tmp_path: Path, plain_cloud: PointCloud
) -> None:
    path = tmp_path / f"cloud{fmt.suffixes[0]}"

    def change_attributes() -> None:
        with open_writer(path, Header.of(plain_cloud)) as writer:
            writer.write(plain_cloud[:5])
            writer.write(PointCloud(plain_cloud.points[5:]))

    with pytest.raises(PdflowError, match=r"cloud\..*give every chunk the same"):
        change_attributes()
    assert list(tmp_path.iterdir()) == []


@each_format
def test_no_points_make_no_file(fmt: Format, tmp_path: Path) -> None:
    path = tmp_path / f"cloud{fmt.suffixes[0]}"
    nothing = PointCloud(np.empty((0, 3)))

    def write_no_chunk() -> None:
        with open_writer(path, Header(None)) as writer:
            writer.write(nothing)

    with pytest.raises(PdflowError, match="no points"):
        write(path, nothing)
    with pytest.raises(PdflowError, match="no points"):
        write_no_chunk()
    assert list(tmp_path.iterdir()) == []


@each_format
def test_full_disk_leaves_the_old_file(
    fmt: Format, tmp_path: Path, coordinates: dict[str, Any]
) -> None:
    """A limit on the size of files acts like a full disk."""
    resource = pytest.importorskip("resource", reason="needs POSIX: limits of processes")
    path, count = tmp_path / f"cloud{fmt.suffixes[0]}", 20_000
    write(path, PointCloud(coordinates["small"]))
    before = path.read_bytes()
    points = np.random.default_rng(0).normal(size=(count, 3))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(PdflowError, match="could not be written") as caught:
            write(path, PointCloud(points, {"id": np.arange(count)}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
