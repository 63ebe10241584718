"""E57 in chunks: the same cloud and the same file as in one piece, in little memory."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, open_reader, open_writer, read, write
from pdflow.errors import LossWarning, PdflowError
from pdflow.io.stream import Header

MakeFile = Callable[..., None]


@pytest.fixture
def mixed(tmp_path: Path, two_scans: Any, make_file: MakeFile) -> Path:
    """Scans with spherical and cartesian points, invalid ones, no points, and other fields."""
    rng = np.random.default_rng(0)

    def cartesian(count: int) -> dict[str, Any]:
        names = ("cartesianX", "cartesianY", "cartesianZ")
        return {name: ("double", rng.normal(size=count) * 9) for name in names}

    state = rng.integers(0, 3, 700).astype(np.uint8)
    spherical = {
        "sphericalRange": ("double", rng.uniform(1, 9, 700)),
        "sphericalAzimuth": ("double", rng.uniform(-3, 3, 700)),
        "sphericalElevation": ("double", rng.uniform(-1.5, 1.5, 700)),
        "sphericalInvalidState": ((0, 2), state),
    }
    normals = {f"nor:normal{a}": ("single", rng.normal(size=400).astype("f4")) for a in "XYZ"}
    wide = {"intensity": ((0, 70_000), rng.integers(0, 70_000, 400).astype(np.longlong))}
    single = {"intensity": ("single", rng.normal(size=250).astype(np.float32))}
    valid = {"cartesianInvalidState": ((0, 2), np.zeros(250, np.uint8))}
    first, second = two_scans.poses
    scans = [
        ({"guid": "a", "pose": first}, spherical),
        ({"guid": "b", "pose": second, "name": "tower"}, {**cartesian(400), **wide, **normals}),
        ({"guid": "c", "pose": first}, {**cartesian(250), **single, **valid}),
    ]
    make_file(tmp_path / "mixed.e57", scans)
    return tmp_path / "mixed.e57"


def write_parts(path: Path, header: Header, chunks: Iterable[PointCloud]) -> list[str]:
    """Write chunks, and say which warnings came."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with open_writer(path, header) as writer:
            for chunk in chunks:
                writer.write(chunk)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("size", [1, 7, 300, 1349, 1350, 5000])
def test_chunks_are_the_whole_bit_for_bit(mixed: Path, size: int) -> None:
    whole = read(mixed)
    assert whole.attributes["scan"].tolist() == [0] * 700 + [1] * 400 + [2] * 250
    assert whole.attributes["direction"].dtype == np.float64
    with open_reader(mixed) as reader:
        chunks = list(reader.chunks(size))
        header = reader.header
    assert header.count == 1350
    assert [len(c) for c in chunks] == [min(size, 1350 - i) for i in range(0, 1350, size)]
    joined = PointCloud.concatenate(chunks)
    assert joined.points.tobytes() == whole.points.tobytes()
    assert list(joined.attributes) == list(whole.attributes) == list(header.fields)
    for name, values in whole.attributes.items():
        assert joined.attributes[name].dtype == values.dtype == header.fields[name].dtype
        assert joined.attributes[name].tobytes() == values.tobytes(), name
    assert all(chunk.metadata == whole.metadata == header.metadata for chunk in chunks)


@pytest.mark.parametrize("size", [1, 7, 300, 5000])
def test_parts_make_the_file_of_the_whole_bit_for_bit(
    mixed: Path, tmp_path: Path, size: int
) -> None:
    cloud = read(mixed)
    write(tmp_path / "whole.e57", cloud)
    with open_reader(mixed) as reader:
        heard = write_parts(tmp_path / "parts.e57", reader.header, reader.chunks(size))
    assert not heard
    assert (tmp_path / "parts.e57").read_bytes() == (tmp_path / "whole.e57").read_bytes()
    scans = read(tmp_path / "parts.e57").metadata["e57"]["scans"]
    assert [scan["guid"] for scan in scans] == ["a", "b", "c"]
    assert scans[1]["name"] == "tower"


@pytest.mark.parametrize("size", [5, 300, 5000])
def test_mixed_rows_are_sorted_by_scan(mixed: Path, tmp_path: Path, size: int) -> None:
    cloud = read(mixed)
    cloud = cloud[np.random.default_rng(0).permutation(len(cloud))]
    with pytest.warns(LossWarning) as caught:
        write(tmp_path / "whole.e57", cloud)
    parts = [cloud[start : start + size] for start in range(0, len(cloud), size)]
    heard = write_parts(tmp_path / "parts.e57", Header.of(cloud), parts)
    assert heard == [str(warning.message) for warning in caught]
    assert heard == [
        "E57 cannot hold points in this order (they are now sorted by scan): left out."
    ]
    assert (tmp_path / "parts.e57").read_bytes() == (tmp_path / "whole.e57").read_bytes()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["mixed.e57", "parts.e57", "two.e57", "whole.e57"]


def test_scans_without_points_stay(mixed: Path, tmp_path: Path) -> None:
    cloud = read(mixed)
    middle = cloud[cloud.attributes["scan"] == 1]
    parts = [middle[:100], middle[100:]]
    assert not write_parts(tmp_path / "parts.e57", Header.of(cloud), parts)
    back = read(tmp_path / "parts.e57")
    assert [scan["guid"] for scan in back.metadata["e57"]["scans"]] == ["a", "b", "c"]
    assert back.attributes["scan"].tolist() == [1] * 400


def test_numbers_that_are_no_scans(mixed: Path, tmp_path: Path) -> None:
    cloud = read(mixed)
    cloud.attributes["scan"][-1] = -1
    parts = [cloud[:1000], cloud[1000:]]
    with pytest.raises(PdflowError, match="numbers that are no scans: give each point"):
        write_parts(tmp_path / "parts.e57", Header.of(cloud), parts)
    assert not (tmp_path / "parts.e57").exists()
    with pytest.warns(LossWarning, match=r"e57\.scans"):  # the whole cloud is seen in advance
        write(tmp_path / "whole.e57", cloud)
    assert read(tmp_path / "whole.e57").attributes["scan"].tolist()[-1] == -1


def test_directions_of_points_that_have_a_place(mixed: Path, tmp_path: Path) -> None:
    cloud = read(mixed)
    cloud.attributes["direction"][-1] = 1.0
    parts = [cloud[:1000], cloud[1000:]]
    with pytest.raises(PdflowError, match=r"'direction' has values .* is not 1"):
        write_parts(tmp_path / "parts.e57", Header.of(cloud), parts)
    assert not (tmp_path / "parts.e57").exists()


def test_passes_that_stop_early_do_no_harm(mixed: Path) -> None:
    with open_reader(mixed) as reader:
        first, second = reader.chunks(10), reader.chunks(20)
        assert (len(next(first)), len(next(second))) == (10, 20)
        assert (len(next(first)), len(next(second))) == (10, 20)
        first.close()  # type: ignore[attr-defined]
    assert len(next(second)) == 20
    del second
    assert len(read(mixed)) == 1350


def test_single_precision_without_a_pose(tmp_path: Path, make_file: MakeFile) -> None:
    values = np.random.default_rng(0).normal(size=20).astype(np.float32)
    names = ("cartesianX", "cartesianY", "cartesianZ")
    fields = dict.fromkeys(names, ("single", values))
    moved = {"guid": "b", "pose": {"translation": {"x": 5.0, "y": 0.0, "z": 0.0}}}
    for scans, dtype in ((1, np.float32), (2, np.float64)):
        headers = [{"guid": "a"}, moved][:scans]
        make_file(tmp_path / "a.e57", [(header, fields) for header in headers])
        with open_reader(tmp_path / "a.e57") as reader:
            assert reader.header.point_dtype == dtype


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Copying four times as many points takes the same memory."""
    peaks = []
    for count in (100_000, 400_000):
        points = np.random.default_rng(0).normal(size=(count, 3))
        write(tmp_path / "a.e57", PointCloud(points, {"intensity": points[:, 0]}))
        del points
        tracemalloc.start()
        with open_reader(tmp_path / "a.e57") as reader:
            write_parts(tmp_path / "b.e57", reader.header, reader.chunks(20_000))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]
