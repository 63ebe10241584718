"""A format from outside the package, in this one file: registered, read, written, converted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pdflow
from pdflow import PointCloud
from pdflow.cli.main import main
from pdflow.errors import PdflowError
from pdflow.io import FORMATS, Format, find_format, register_format, unregister_format

TOY = Format("toy", (".toy", ".toy2"), module=__name__)


# The format: what its registered module, this one, has to offer


def read(path: Path) -> PointCloud:
    content = json.loads(path.read_text())
    attributes = {
        name: np.array(values, dtype) for name, (dtype, values) in content["attributes"].items()
    }
    return PointCloud(content["points"], attributes, content["metadata"])


def write(path: Path, cloud: PointCloud) -> None:
    attributes = {name: (v.dtype.str, v.tolist()) for name, v in cloud.attributes.items()}
    content = {"points": cloud.points.tolist(), "attributes": attributes}
    path.write_text(json.dumps({**content, "metadata": cloud.metadata}))


# The tests


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_format(TOY)
    yield
    unregister_format("toy")
    assert TOY not in FORMATS


@pytest.fixture
def cloud() -> PointCloud:
    rng = np.random.default_rng(0)
    return PointCloud(
        rng.normal((5e5, 5e6, 100), size=(30, 3)),
        {
            "colors": rng.integers(0, 256, (30, 3)).astype(np.uint8),
            "intensity": rng.integers(0, 60000, 30).astype(np.uint16),
            "gps_time": rng.uniform(0, 1e9, 30),
        },
        {"crs": "EPSG:25832", "comments": ["by hand"]},
    )


def assert_same(left: PointCloud, right: PointCloud) -> None:
    np.testing.assert_array_equal(left.points, right.points)
    assert list(left.attributes) == list(right.attributes)
    for name, values in left.attributes.items():
        assert values.dtype == right.attributes[name].dtype
        np.testing.assert_array_equal(values, right.attributes[name])
    assert left.metadata.items() <= right.metadata.items()


@pytest.mark.parametrize(("name", "format"), [("a.toy", None), ("A.TOY2", None), ("a.x", "toy")])
def test_read_and_write_know_the_format(
    tmp_path: Path, cloud: PointCloud, name: str, format: str | None
) -> None:
    pdflow.write(tmp_path / name, cloud, format)
    assert_same(cloud, pdflow.read(tmp_path / name, format))


def test_chunks_work_although_the_format_has_whole_clouds_only(
    tmp_path: Path, cloud: PointCloud
) -> None:
    pdflow.write(tmp_path / "a.toy", cloud)
    with (
        pdflow.open_reader(tmp_path / "a.toy") as reader,
        pdflow.open_writer(tmp_path / "b.toy", reader.header) as writer,
    ):
        for chunk in reader.chunks(7):
            writer.write(chunk)
    assert_same(cloud, pdflow.read(tmp_path / "b.toy"))


def test_convert_goes_from_ply_to_the_format_and_back(tmp_path: Path, cloud: PointCloud) -> None:
    first, toy, last = tmp_path / "a.ply", tmp_path / "a.toy", tmp_path / "b.ply"
    pdflow.write(first, cloud)
    assert main(["convert", str(first), str(toy)]) == 0
    assert json.loads(toy.read_text())["attributes"]["colors"][0] == "|u1"
    assert main(["convert", str(toy), str(last)]) == 0
    assert_same(cloud, pdflow.read(last))
    assert last.read_bytes() == first.read_bytes()


def test_convert_takes_the_name_of_the_format(tmp_path: Path, cloud: PointCloud) -> None:
    pdflow.write(tmp_path / "a.ply", cloud)
    assert main(["convert", str(tmp_path / "a.ply"), str(tmp_path / "a.x"), "--to", "toy"]) == 0
    assert_same(cloud, pdflow.read(tmp_path / "a.x", "toy"))


def test_a_name_or_suffix_belongs_to_one_format() -> None:
    with pytest.raises(PdflowError, match="'ply' belongs to 'ply'"):
        register_format(Format("ply", (".other",), module=__name__))
    with pytest.raises(PdflowError, match=r"'\.las' belongs to 'las'"):
        register_format(Format("other", (".new", ".las"), module=__name__))
    assert find_format(Path("a.las")).name == "las"


@pytest.mark.parametrize("suffixes", [(), ("toy3",), (".TOY3",)])
def test_suffixes_that_no_file_could_match_are_refused(suffixes: tuple[str, ...]) -> None:
    with pytest.raises(PdflowError, match="at least one suffix in lower case"):
        Format("toy3", suffixes, module=__name__)


def test_an_unregistered_format_is_unknown_again(tmp_path: Path) -> None:
    unregister_format("toy")
    try:
        with pytest.raises(PdflowError, match="its format is unknown"):
            pdflow.read(tmp_path / "a.toy")
        with pytest.raises(PdflowError, match="Unknown format 'toy'"):
            unregister_format("toy")
    finally:
        register_format(TOY)
