"""Text from pdflow: what its readers expect, and all of it comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdflow import PointCloud, open_reader, open_writer, read, write
from pdflow.errors import LossWarning
from pdflow.io import Field, Header

SUFFIXES = ("xyz", "txt", "asc", "csv", "pts")
Same = Callable[[PointCloud, PointCloud], None]


def test_points_alone_are_plain_numbers(tmp_path: Path) -> None:
    write(tmp_path / "a.xyz", PointCloud([[0.1, 2, -0.0], [1e-300, 1 / 3, 5e6 + 1e-4]]))
    assert (tmp_path / "a.xyz").read_text() == (
        "0.1 2.0 -0.0\n1e-300 0.3333333333333333 5000000.0001\n"
    )


def test_each_kind_is_written_as_its_readers_expect(tmp_path: Path, same_attributes: Same) -> None:
    colors = np.array([[1, 2, 3]], np.uint8)
    cloud = PointCloud([[1, 2, 3]], {"intensity": np.array([7]), "colors": colors})
    rows = "1.0 2.0 3.0 7 1 2 3\n"
    for name, text in {
        "a.xyz": "# x y z intensity red green blue\n" + rows,
        "a.txt": "# x y z intensity red green blue\n" + rows,
        "a.csv": "x,y,z,intensity,red,green,blue\n" + rows.replace(" ", ","),
        "a.pts": "1\n" + rows,
        "a.xyzrgb": "# x y z intensity red green blue\n" + rows,
    }.items():
        write(tmp_path / name, cloud)
        assert (tmp_path / name).read_text() == text
        same_attributes(read(tmp_path / name), cloud)
    del cloud.attributes["intensity"]
    write(tmp_path / "a.xyzrgb", cloud)
    assert (tmp_path / "a.xyzrgb").read_text() == "1.0 2.0 3.0 1 2 3\n"
    same_attributes(read(tmp_path / "a.xyzrgb"), cloud)
    cloud = PointCloud([[1, 2, 3]], {"normals": np.array([[0.0, 0.5, 0.5]])})
    write(tmp_path / "a.xyzn", cloud)
    assert (tmp_path / "a.xyzn").read_text() == "1.0 2.0 3.0 0.0 0.5 0.5\n"
    same_attributes(read(tmp_path / "a.xyzn"), cloud)


def test_pts_begins_with_its_count_and_rows(tmp_path: Path, example_cloud: PointCloud) -> None:
    cloud = example_cloud
    write(tmp_path / "a.pts", cloud)
    lines = (tmp_path / "a.pts").read_text().splitlines()
    assert lines[0] == "20"
    assert all(not line.startswith("#") for line in lines[:21])
    assert all(line.startswith("# ") for line in lines[21:])
    assert lines[-1].startswith("# x y z intensity red green blue nx ny nz")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_everything_comes_back(
    tmp_path: Path, suffix: str, same_attributes: Same, example_cloud: PointCloud
) -> None:
    cloud = example_cloud
    write(tmp_path / f"a.{suffix}", cloud)
    back = read(tmp_path / f"a.{suffix}")
    same_attributes(back, cloud)
    assert back.metadata == cloud.metadata


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("size", [1, 7, 20, 1000])
@pytest.mark.parametrize("known", [True, False])
def test_chunks(
    tmp_path: Path,
    suffix: str,
    size: int,
    known: bool,
    same_attributes: Same,
    example_cloud: PointCloud,
) -> None:
    cloud = example_cloud
    header = Header.of(cloud)
    header = Header(20 if known else None, header.fields, header.metadata)
    with open_writer(tmp_path / f"a.{suffix}", header) as writer:
        for start in range(0, 20, size):
            writer.write(cloud[start : start + size])
    with open_reader(tmp_path / f"a.{suffix}") as reader:
        assert reader.header.fields == header.fields
        for _ in range(2):
            chunks = list(reader.chunks(size))
            assert [len(c) for c in chunks] == [min(size, 20 - i) for i in range(0, 20, size)]
            same_attributes(PointCloud.concatenate(chunks), cloud)
            assert chunks[-1].metadata == cloud.metadata


def test_fewer_points_than_announced(
    tmp_path: Path, same_attributes: Same, example_cloud: PointCloud
) -> None:
    cloud = example_cloud
    for suffix in SUFFIXES:
        with open_writer(tmp_path / f"a.{suffix}", Header.of(cloud)) as writer:
            writer.write(cloud[:7])
        same_attributes(read(tmp_path / f"a.{suffix}"), cloud[:7])


def test_more_points_than_announced(
    tmp_path: Path, same_attributes: Same, example_cloud: PointCloud
) -> None:
    cloud = example_cloud
    for suffix in SUFFIXES:
        header = Header(7, Header.of(cloud).fields, cloud.metadata)
        with open_writer(tmp_path / f"a.{suffix}", header) as writer:
            for start in range(20):
                writer.write(cloud[start : start + 1])
        same_attributes(read(tmp_path / f"a.{suffix}"), cloud)


def test_losses_of_text_are_named(tmp_path: Path) -> None:
    cloud = PointCloud(
        [[0, 0, 0]],
        {"label": np.array(["tree"]), "wave": np.array([1j]), "none": np.zeros((1, 0))},
        {"odd": object()},
    )
    with pytest.warns(LossWarning) as caught:
        write(tmp_path / "a.csv", cloud)
    (warning,) = caught
    assert str(warning.message) == (
        "CSV cannot hold attribute 'label' (text), attribute 'wave' (complex128), "
        "attribute 'none' (no values), metadata 'odd': left out."
    )


def test_names_that_look_like_something_else_survive(tmp_path: Path, same_attributes: Same) -> None:
    names = ["X", "r", "I", "red", "nan", "1.5", "a,b", "a;b", "# c", "", "two words", "Höhe"]
    attributes: dict[str, Any] = {name: np.full(2, i, np.int64) for i, name in enumerate(names)}
    attributes["colors"] = np.zeros((2, 3), np.uint8)
    for suffix in SUFFIXES:
        cloud = PointCloud(np.zeros((2, 3)), attributes)
        write(tmp_path / f"a.{suffix}", cloud)
        same_attributes(read(tmp_path / f"a.{suffix}"), cloud)


@pytest.mark.parametrize("dtype", ["u1", "u2", "i4", "i8", "u8", "f4", "f8"])
@pytest.mark.parametrize("name", ["colors", "normals", "red"])
def test_colors_and_normals_keep_their_dtype(
    tmp_path: Path, dtype: str, name: str, same_attributes: Same
) -> None:
    values = np.array([[0, 1, 2], [3, 4, 5]], dtype)
    cloud = PointCloud(np.zeros((2, 3)), {name: values[:, 0] if name == "red" else values})
    for suffix in SUFFIXES:
        write(tmp_path / f"a.{suffix}", cloud)
        same_attributes(read(tmp_path / f"a.{suffix}"), cloud)


def test_elements_of_a_mesh_survive_text(tmp_path: Path) -> None:
    faces = {"counts": np.full(2, 3, np.uint8), "values": np.arange(6, dtype=np.int32)}
    ply = {
        "format": "ascii",
        "coordinates": "float",
        "vertices": 6,
        "elements": {"face": {"count": 2, "properties": {"vertex_indices": faces}}},
    }
    write(tmp_path / "a.xyz", PointCloud(np.eye(6, 3), metadata={"ply": ply}))
    write(tmp_path / "b.ply", read(tmp_path / "a.xyz"))
    back = read(tmp_path / "b.ply").metadata["ply"]
    assert back["format"] == "ascii"
    kept = back["elements"]["face"]["properties"]["vertex_indices"]
    np.testing.assert_array_equal(kept["values"], faces["values"])


def test_header_shows_fields_before_the_rows_are_read(tmp_path: Path) -> None:
    with open_writer(tmp_path / "a.xyz", Header(None, {"a": Field(np.dtype("f4"), 2)})) as writer:
        writer.write(PointCloud([[0, 0, 0]], {"a": np.array([[0.1, 0.2]], np.float32)}))
    text = (tmp_path / "a.xyz").read_text()
    assert text.endswith("# x y z a_0 a_1\n0.0 0.0 0.0 0.1 0.2\n")
    with open_reader(tmp_path / "a.xyz") as reader:
        assert reader.header.fields == {"a": Field(np.dtype("f4"), 2)}
        assert reader.header.count is None


quick = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
any_float = st.floats(allow_nan=False, allow_infinity=False)


@quick
@given(
    st.lists(st.tuples(any_float, any_float, any_float), min_size=1),
    st.sampled_from(SUFFIXES),
)
def test_every_double_comes_back(
    tmp_path: Path, points: list[tuple[float, float, float]], suffix: str
) -> None:
    with np.errstate(over="ignore"):
        write(tmp_path / f"a.{suffix}", PointCloud(points))
    back = read(tmp_path / f"a.{suffix}").points
    assert back.tobytes() == np.array(points).tobytes()
