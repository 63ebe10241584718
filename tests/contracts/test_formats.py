"""What every point format promises: nothing is lost without being named.

A cloud that is written and read again has equal points (LAS and LAZ: within half their scale),
equal attributes in name, order (LAS, LAZ: their own), dtype, width and value, and equal metadata.
The one LossWarning of the write names everything else.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, read, write
from pdflow.errors import LossWarning
from pdflow.io import FORMATS, Format

M = 10
FIXED_ORDER = ("las", "laz")
POINT_FORMATS = [fmt for fmt in FORMATS if fmt.points]
each_format = pytest.mark.parametrize("fmt", POINT_FORMATS, ids=lambda fmt: fmt.name)

Coordinates = dict[str, Any]
Values = Callable[..., Any]
RoundTrip = Callable[[Format, PointCloud], str]

DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
SETS: dict[str, dict[str, Any]] = {
    "none": {},
    "colors-u1": {"colors": ("u1", 3)},
    "colors-u2": {"colors": ("u2", 3)},
    "normals-f4": {"normals": ("f4", 3)},
    "normals-f8": {"normals": ("f8", 3)},
    **{f"intensity-{dtype}": {"intensity": (dtype,)} for dtype in DTYPES},
    **{f"label-{dtype}": {"label": (dtype,)} for dtype in DTYPES},
    "flag-b1": {"flag": ("b1",)},
    "descriptor-f4x5": {"descriptor": ("f4", 5)},
    "offset-i2x3": {"offset": ("i2", 3)},
    "one-f8x1": {"one": ("f8", 1)},
    "text": {"text": np.array([f"row {i}" for i in range(M)]), "intensity": ("u2",)},
    "objects": {"objects": np.array([None, *range(1, M)], dtype=object)},
}
"""Name -> attributes: arrays, or dtype and width of random values."""

RARE: dict[str, dict[str, Any]] = {
    **{f"colors-{dtype}": {"colors": (dtype, 3)} for dtype in ["b1", *DTYPES]},
    **{f"normals-{dtype}": {"normals": (dtype, 3)} for dtype in ["b1", *DTYPES]},
    **{f"wide-{dtype}x2": {"wide": (dtype, 2)} for dtype in ["b1", *DTYPES]},
    **{f"class-{dtype}": {"classification": (dtype,)} for dtype in ["b1", *DTYPES]},
    **{f"gps_time-{dtype}": {"gps_time": (dtype,)} for dtype in ["b1", *DTYPES]},
    **{
        f"foreign-{dtype}": {"foreign": np.linspace(-1, 1, M).astype(dtype)}
        for dtype in (">f4", ">f8")
    },
    **{f"foreign-{dtype}": {"foreign": np.arange(M, dtype=dtype)} for dtype in (">i2", ">u8")},
    "colors-x4": {"colors": ("u1", 4)},
    "normals-x0": {"normals": ("f4",)},
    "intensity-x2": {"intensity": ("u2", 2)},
    "date": {"date": np.arange(M).astype("M8[ms]")},
    "complex": {"complex": (np.arange(M) + 0.5j).astype(np.complex64)},
    "nothing": {"nothing": np.empty((M, 0))},
}
AWKWARD = [
    *("x", "X", "Y", "z", "red", "r", "Red", "nx", "normal_x", "rgb", "rgba", "_", "i", "scalar"),
    *("points", "xyz", "pdflow", "columns", "column_3", "w_0", "w_1", "colors_0", "normals_2"),
    *("two words", " edge ", "comma,semi;colon", "#hash", '"quoted"', "'", "back\\slash", "a/b"),
    *("Höhe", "点", "", "new\nline", "tab\tbed", "nul\0", "//", "%", "1.5", "nan", "vertex"),
    *("a" * 32, "a" * 33, "a" * 40 + "1", "a" * 40 + "2", "cartesianX", "return_number", "file"),
]


def own_entry(fmt: Format) -> str:
    """The metadata entry that only this format writes, such as "las" for LAZ."""
    return fmt.module.rpartition(".")[2]


@pytest.fixture
def attributes_of(values: Values) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Makes the attributes of a set."""

    def make(specs: dict[str, Any]) -> dict[str, Any]:
        return {n: values(*s) if isinstance(s, tuple) else s for n, s in specs.items()}

    return make


@pytest.fixture
def round_trip(
    tmp_path: Path,
    same: Callable[[Any, Any], bool],
    same_values: Callable[[Any, Any], bool],
    assert_points: Callable[[Format, PointCloud, PointCloud], None],
    write_and_hear: Callable[[Path, PointCloud, Format], str],
) -> RoundTrip:
    """Writes, reads and compares a cloud: nothing is lost unnamed. Returns the warning."""

    def check(fmt: Format, cloud: PointCloud) -> str:
        path = tmp_path / f"cloud{fmt.suffixes[0]}"
        warning = write_and_hear(path, cloud, fmt)
        assert str(tmp_path) not in warning, "a warning must not show the temporary file"
        back = read(path)
        assert_points(fmt, cloud, back)
        kept = []
        for name, array in cloud.attributes.items():
            if repr(name) in warning:
                assert name not in back.attributes, f"{name!r} is there but named as lost"
            else:
                assert name in back.attributes, f"{name!r} is lost, the warning: {warning!r}"
                found = back.attributes[name]
                assert same_values(array, found), f"{name!r}: {array!r} became {found!r}"
                assert found.flags.writeable, f"{name!r} cannot be changed"
                kept.append(name)
        found_names = list(back.attributes)
        if fmt.name in FIXED_ORDER:
            found_names, kept = sorted(found_names), sorted(kept)
        assert found_names == kept, "other attributes, or another order"
        for key, value in cloud.metadata.items():
            if repr(key) not in warning:
                assert same(value, back.metadata.get(key)), f"metadata {key!r}: {back.metadata}"
        assert set(back.metadata) <= {*cloud.metadata, own_entry(fmt), fmt.name}
        return warning

    return check


@each_format
@pytest.mark.parametrize("place", ["small", "utm", "float32"])
@pytest.mark.parametrize("name", SETS)
def test_nothing_is_lost_without_being_named(
    fmt: Format,
    place: str,
    name: str,
    coordinates: Coordinates,
    attributes_of: Callable[..., Any],
    round_trip: RoundTrip,
) -> None:
    round_trip(fmt, PointCloud(coordinates[place], attributes_of(SETS[name])))


@each_format
@pytest.mark.parametrize("place", ["small", "utm", "float32"])
def test_usual_attributes_fit_every_format(
    fmt: Format,
    place: str,
    coordinates: Coordinates,
    usual_attributes: dict[str, Any],
    all_attributes: dict[str, Any],
    round_trip: RoundTrip,
) -> None:
    assert not round_trip(fmt, PointCloud(coordinates[place], usual_attributes))
    round_trip(fmt, PointCloud(coordinates[place], all_attributes))


@each_format
@pytest.mark.parametrize("name", RARE)
def test_rare_dtypes_and_widths(
    fmt: Format,
    name: str,
    coordinates: Coordinates,
    attributes_of: Callable[..., Any],
    round_trip: RoundTrip,
) -> None:
    round_trip(fmt, PointCloud(coordinates["small"], attributes_of(RARE[name])))


@each_format
def test_formats_with_room_for_everything_lose_nothing(
    fmt: Format, rich_cloud: PointCloud, round_trip: RoundTrip
) -> None:
    warning = round_trip(fmt, rich_cloud)
    if fmt.name in ("pcd", "npz"):
        assert not warning


@each_format
@pytest.mark.parametrize("name", AWKWARD, ids=ascii)
def test_awkward_names(
    fmt: Format, name: str, coordinates: Coordinates, values: Values, round_trip: RoundTrip
) -> None:
    for array in (values("i2"), values("f4", 3)):
        round_trip(fmt, PointCloud(coordinates["small"], {name: array}))


@each_format
@pytest.mark.parametrize("width", [0, 3])
def test_all_awkward_names_at_once(
    fmt: Format, width: int, coordinates: Coordinates, values: Values, round_trip: RoundTrip
) -> None:
    attributes = {name: values("i2", width) + i for i, name in enumerate(AWKWARD)}
    round_trip(fmt, PointCloud(coordinates["small"], attributes))


@each_format
@pytest.mark.parametrize("names", [("red", "green", "blue"), ("nx", "ny", "nz"), ("w_0", "w_1")])
def test_scalars_that_look_like_one_attribute(
    fmt: Format,
    names: tuple[str, ...],
    coordinates: Coordinates,
    values: Values,
    round_trip: RoundTrip,
) -> None:
    for attributes in (
        {name: values("u1") for name in names},
        {**{name: values("u1") for name in names}, "colors": values("u1", 3)},
        {**{name: values("f4") for name in names}, "normals": values("f4", 3)},
    ):
        round_trip(fmt, PointCloud(coordinates["small"], attributes))


@each_format
@pytest.mark.parametrize("key", ["crs", "comments", "survey", "empty", "with blank"])
def test_metadata_one_by_one(
    fmt: Format, key: str, rich_cloud: PointCloud, round_trip: RoundTrip
) -> None:
    round_trip(fmt, PointCloud(rich_cloud.points, None, {key: rich_cloud.metadata[key]}))


@each_format
def test_metadata_of_other_formats(
    fmt: Format,
    coordinates: Coordinates,
    usual_attributes: dict[str, Any],
    round_trip: RoundTrip,
) -> None:
    others = {own_entry(f) for f in POINT_FORMATS} - {own_entry(fmt), fmt.name}
    metadata = {name: {"list": [1, 2], "blob": b"\0"} for name in sorted(others)}
    round_trip(fmt, PointCloud(coordinates["small"], usual_attributes, metadata))


@each_format
def test_metadata_that_no_format_holds_is_named(
    fmt: Format, coordinates: Coordinates, round_trip: RoundTrip
) -> None:
    cloud = PointCloud(coordinates["small"], None, {"odd": object(), "crs": "EPSG:25832"})
    assert "'odd'" in round_trip(fmt, cloud)


@each_format
def test_second_round_trip_changes_nothing(
    fmt: Format,
    tmp_path: Path,
    rich_cloud: PointCloud,
    write_and_hear: Callable[..., str],
    assert_same_cloud: Callable[[PointCloud, PointCloud], None],
) -> None:
    path = tmp_path / f"cloud{fmt.suffixes[0]}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)
        write(path, rich_cloud)
    first = read(path)
    if fmt.name == "npy":
        assert first.metadata == {}
    assert write_and_hear(path, first, fmt) == ""
    assert_same_cloud(first, read(path))


@each_format
def test_writing_leaves_the_cloud_unchanged(
    fmt: Format,
    tmp_path: Path,
    coordinates: Coordinates,
    usual_attributes: dict[str, Any],
    same_values: Callable[[Any, Any], bool],
    write_and_hear: Callable[..., str],
) -> None:
    cloud = PointCloud(coordinates["small"], usual_attributes, {"crs": "EPSG:25832"})
    copies = {name: array.copy() for name, array in cloud.attributes.items()}
    points = cloud.points.copy()
    write_and_hear(tmp_path / f"a{fmt.suffixes[0]}", cloud, fmt)
    np.testing.assert_array_equal(cloud.points, points)
    assert all(same_values(copies[name], cloud.attributes[name]) for name in copies)
    assert cloud.metadata == {"crs": "EPSG:25832"}
