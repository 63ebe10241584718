"""What every point format promises: nothing is lost without being named.

A cloud that is written and read again has equal points (LAS and LAZ: within half their scale),
equal attributes in name, order (LAS, LAZ: their own), dtype, width and value, and equal
metadata; whatever has not is named in the one LossWarning of the write.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, open_reader, open_writer, read, write
from pdflow.errors import LossWarning, PdflowError
from pdflow.io import FORMATS, Format, Header

M = 10
FIXED_ORDER = ("las", "laz")
POINT_FORMATS = [fmt for fmt in FORMATS if fmt.points]
each_format = pytest.mark.parametrize("fmt", POINT_FORMATS, ids=lambda fmt: fmt.name)

Attributes = dict[str, Any]


# Clouds


def coordinates() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    small = rng.normal(size=(M, 3))
    tenths_of_mm = np.rint(rng.uniform(0, 1e6, (M, 3))) * 1e-4
    return {
        "small": small,
        "utm": tenths_of_mm + np.array([5e6, 4e5, 100.0]),
        "float32": small.astype(np.float32).astype(np.float64),
    }


def values(dtype: str, width: int = 0) -> Any:
    """Random values of a dtype, with the extremes of what it can hold."""
    rng = np.random.default_rng(2)
    kind = np.dtype(dtype)
    shape = (M, width) if width else (M,)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.kind == "f":
        array = rng.normal(size=shape).astype(kind)
        array[:5].reshape(-1)[:5] = [np.nan, np.inf, -np.inf, -0.0, np.finfo(kind).max]
        return array
    limits = np.iinfo(kind)
    array = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    array.reshape(-1)[:2] = [limits.min, limits.max]
    return array


DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
USUAL: Attributes = {
    "colors": values("u1", 3),
    "normals": values("f4", 3),
    "intensity": values("u2"),
    "classification": np.arange(M, dtype=np.uint8),
    "gps_time": np.linspace(3e8, 3e8 + 1, M),
}
SETS: dict[str, Attributes] = {
    "none": {},
    "colors-u1": {"colors": values("u1", 3)},
    "colors-u2": {"colors": values("u2", 3)},
    "normals-f4": {"normals": values("f4", 3)},
    "normals-f8": {"normals": values("f8", 3)},
    **{f"intensity-{dtype}": {"intensity": values(dtype)} for dtype in DTYPES},
    **{f"label-{dtype}": {"label": values(dtype)} for dtype in DTYPES},
    "flag-b1": {"flag": values("b1")},
    "descriptor-f4x5": {"descriptor": values("f4", 5)},
    "offset-i2x3": {"offset": values("i2", 3)},
    "one-f8x1": {"one": values("f8", 1)},
    "text": {"text": np.array([f"row {i}" for i in range(M)]), "intensity": values("u2")},
    "objects": {"objects": np.array([None, *range(1, M)], dtype=object)},
    "usual": USUAL,
    "everything": {
        **USUAL,
        "alpha": values("u1"),
        "flag": values("b1"),
        "descriptor": values("f8", 5),
        "offset": values("i2", 3),
        **{f"label_{dtype}": values(dtype) for dtype in DTYPES},
    },
}
RARE: dict[str, Attributes] = {
    **{f"colors-{dtype}": {"colors": values(dtype, 3)} for dtype in ["b1", *DTYPES]},
    **{f"normals-{dtype}": {"normals": values(dtype, 3)} for dtype in ["b1", *DTYPES]},
    **{f"wide-{dtype}x2": {"wide": values(dtype, 2)} for dtype in ["b1", *DTYPES]},
    **{f"class-{dtype}": {"classification": values(dtype)} for dtype in ["b1", *DTYPES]},
    **{f"gps_time-{dtype}": {"gps_time": values(dtype)} for dtype in ["b1", *DTYPES]},
    **{
        f"foreign-{dtype}": {"foreign": np.linspace(-1, 1, M).astype(dtype)}
        for dtype in (">f4", ">f8")
    },
    **{f"foreign-{dtype}": {"foreign": np.arange(M, dtype=dtype)} for dtype in (">i2", ">u8")},
    "colors-x4": {"colors": values("u1", 4)},
    "normals-x0": {"normals": values("f4")},
    "intensity-x2": {"intensity": values("u2", 2)},
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
METADATA: dict[str, Any] = {
    "crs": "EPSG:25832",
    "comments": ["by hand", "  two  blanks ", "two\nlines", "übrig", ""],
    "survey": {
        "blob": bytes(range(256)),
        "array": np.arange(6, dtype=">f4").reshape(2, 3),
        "list": [1, 2.5, None, True, {"a b": "ä\n"}, float("inf")],
    },
    "empty": {},
    "with blank": 1,
}


# Comparison


def same(a: Any, b: Any) -> bool:
    """Equality of metadata that also looks at types, dtypes and shapes."""
    if isinstance(a, np.ndarray):
        alike = isinstance(b, np.ndarray) and (a.dtype, a.shape) == (b.dtype, b.shape)
        return alike and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def same_values(a: Any, b: Any) -> bool:
    """Equality of attributes: dtype, shape, values; NaN equals NaN and 0 is not -0."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    equal = (a == b) & (np.signbit(a) == np.signbit(b)) if a.dtype.kind == "f" else a == b
    return bool((equal | (a != a)).all())


def own_entry(fmt: Format) -> str:
    """The metadata entry that only this format writes, such as "las" for LAZ."""
    return fmt.module.rpartition(".")[2]


def assert_points(fmt: Format, cloud: PointCloud, back: PointCloud) -> None:
    """Equal coordinates, or in LAS within half a scale that keeps 0.1 mm."""
    if fmt.name in ("las", "laz"):
        scale = np.asarray(back.metadata["las"]["scales"])
        assert (scale <= 1e-4).all()
        assert (np.abs(back.points - cloud.points) <= scale / 2 * (1 + 1e-6)).all()
    else:
        np.testing.assert_array_equal(back.points, cloud.points)


def write_and_hear(path: Path, cloud: PointCloud, fmt: Format) -> str:
    """Write and return the text of the LossWarning, of which there is one at most."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        write(path, cloud, fmt.name)
    assert all(issubclass(w.category, LossWarning) for w in caught), [str(w) for w in caught]
    assert len(caught) <= 1, [str(w.message) for w in caught]
    return "".join(str(w.message) for w in caught)


def assert_nothing_lost_unnamed(fmt: Format, cloud: PointCloud, folder: Path) -> str:
    """Write, read, compare; returns the warning."""
    path = folder / f"cloud{fmt.suffixes[0]}"
    told = write_and_hear(path, cloud, fmt)
    assert str(folder) not in told, "a warning must not show the temporary file"
    back = read(path)
    assert_points(fmt, cloud, back)
    kept = []
    for name, array in cloud.attributes.items():
        if repr(name) in told:
            assert name not in back.attributes, f"{name!r} is there but named as lost"
        else:
            assert name in back.attributes, f"{name!r} is lost, the warning says: {told!r}"
            found = back.attributes[name]
            assert same_values(array, found), f"{name!r}: {array!r} became {found!r}"
            assert found.flags.writeable, f"{name!r} cannot be changed"
            kept.append(name)
    found_names = list(back.attributes)
    if fmt.name in FIXED_ORDER:
        found_names, kept = sorted(found_names), sorted(kept)
    assert found_names == kept, "other attributes, or another order"
    for key, value in cloud.metadata.items():
        if repr(key) not in told:
            assert same(value, back.metadata.get(key)), f"metadata {key!r}: {back.metadata}"
    assert set(back.metadata) <= {*cloud.metadata, own_entry(fmt), fmt.name}
    return told


# The round trip


@each_format
@pytest.mark.parametrize("place", coordinates())
@pytest.mark.parametrize("attributes", SETS)
def test_nothing_is_lost_without_being_named(
    fmt: Format, place: str, attributes: str, tmp_path: Path
) -> None:
    cloud = PointCloud(coordinates()[place], SETS[attributes])
    told = assert_nothing_lost_unnamed(fmt, cloud, tmp_path)
    if attributes == "usual":
        assert not told, "colours, normals, intensity, class and time fit every format"


@each_format
@pytest.mark.parametrize("attributes", RARE)
def test_rare_dtypes_and_widths(fmt: Format, attributes: str, tmp_path: Path) -> None:
    assert_nothing_lost_unnamed(fmt, PointCloud(coordinates()["small"], RARE[attributes]), tmp_path)


@each_format
def test_formats_with_room_for_all_lose_nothing(fmt: Format, tmp_path: Path) -> None:
    cloud = PointCloud(coordinates()["utm"], SETS["everything"], METADATA)
    told = assert_nothing_lost_unnamed(fmt, cloud, tmp_path)
    if fmt.name in ("pcd", "npz"):
        assert not told


@each_format
@pytest.mark.parametrize("name", AWKWARD, ids=ascii)
def test_awkward_names(fmt: Format, name: str, tmp_path: Path) -> None:
    for array in (values("i2"), values("f4", 3)):
        assert_nothing_lost_unnamed(
            fmt, PointCloud(coordinates()["small"], {name: array}), tmp_path
        )


@each_format
@pytest.mark.parametrize("width", [0, 3])
def test_all_awkward_names_at_once(fmt: Format, width: int, tmp_path: Path) -> None:
    attributes = {name: values("i2", width) + i for i, name in enumerate(AWKWARD)}
    cloud = PointCloud(coordinates()["small"], attributes)
    assert_nothing_lost_unnamed(fmt, cloud, tmp_path)


@each_format
@pytest.mark.parametrize("names", [("red", "green", "blue"), ("nx", "ny", "nz"), ("w_0", "w_1")])
def test_scalars_that_look_like_one_attribute(
    fmt: Format, names: tuple[str, ...], tmp_path: Path
) -> None:
    for attributes in (
        {name: values("u1") for name in names},
        {**{name: values("u1") for name in names}, "colors": values("u1", 3)},
        {**{name: values("f4") for name in names}, "normals": values("f4", 3)},
    ):
        cloud = PointCloud(coordinates()["small"], attributes)
        assert_nothing_lost_unnamed(fmt, cloud, tmp_path)


@each_format
@pytest.mark.parametrize("key", METADATA)
def test_metadata_one_by_one(fmt: Format, key: str, tmp_path: Path) -> None:
    cloud = PointCloud(coordinates()["utm"], None, {key: METADATA[key]})
    assert_nothing_lost_unnamed(fmt, cloud, tmp_path)


@each_format
def test_metadata_of_the_other_formats(fmt: Format, tmp_path: Path) -> None:
    others = {own_entry(f) for f in POINT_FORMATS} - {own_entry(fmt), fmt.name}
    metadata = {name: {"list": [1, 2], "blob": b"\0"} for name in sorted(others)}
    assert_nothing_lost_unnamed(
        fmt, PointCloud(coordinates()["small"], SETS["usual"], metadata), tmp_path
    )


@each_format
def test_metadata_that_nothing_can_hold_are_named(fmt: Format, tmp_path: Path) -> None:
    cloud = PointCloud(coordinates()["small"], None, {"odd": object(), "crs": "EPSG:25832"})
    assert "'odd'" in assert_nothing_lost_unnamed(fmt, cloud, tmp_path)


@each_format
def test_a_second_round_trip_changes_nothing(fmt: Format, tmp_path: Path) -> None:
    path = tmp_path / f"cloud{fmt.suffixes[0]}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)
        write(path, PointCloud(coordinates()["utm"], SETS["everything"], METADATA))
    first = read(path)
    if fmt.name == "npy":
        assert first.metadata == {}
    assert write_and_hear(path, first, fmt) == ""
    second = read(path)
    np.testing.assert_array_equal(first.points, second.points)
    assert list(first.attributes) == list(second.attributes)
    assert all(same_values(v, second.attributes[k]) for k, v in first.attributes.items())
    assert same(first.metadata, second.metadata)


@each_format
def test_the_cloud_itself_is_left_alone(fmt: Format, tmp_path: Path) -> None:
    cloud = PointCloud(coordinates()["small"], dict(SETS["usual"]), {"crs": "EPSG:25832"})
    copies = {name: array.copy() for name, array in cloud.attributes.items()}
    points = cloud.points.copy()
    write_and_hear(tmp_path / f"a{fmt.suffixes[0]}", cloud, fmt)
    np.testing.assert_array_equal(cloud.points, points)
    assert all(same_values(copies[name], cloud.attributes[name]) for name in copies)
    assert cloud.metadata == {"crs": "EPSG:25832"}


# Names of files


@each_format
def test_every_suffix_in_upper_case(fmt: Format, tmp_path: Path) -> None:
    points = np.arange(12.0).reshape(4, 3)
    for suffix in fmt.suffixes:
        path = tmp_path / f"CLOUD{suffix.upper()}"
        write(path, PointCloud(points))
        np.testing.assert_array_equal(read(path).points, points)


@each_format
@pytest.mark.parametrize("name", ["cloud", "cloud.data", "cloud.docx"])
def test_the_format_can_be_said(fmt: Format, name: str, tmp_path: Path) -> None:
    plain, path = tmp_path / f"cloud{fmt.suffixes[0]}", tmp_path / name
    cloud = PointCloud(np.arange(12.0).reshape(4, 3), {"intensity": np.arange(4, dtype="u2")})
    write(plain, cloud)
    write(path, cloud, format=fmt.name)
    back = read(path, format=fmt.name)
    np.testing.assert_array_equal(back.points, cloud.points)
    assert same_values(back.attributes["intensity"], cloud.attributes["intensity"])
    if fmt.name not in ("las", "laz", "e57"):  # whose headers hold the time and an id
        assert path.read_bytes() == plain.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([plain.name, name])


# Chunks


def assert_same_cloud(a: PointCloud, b: PointCloud) -> None:
    np.testing.assert_array_equal(a.points, b.points)
    assert list(a.attributes) == list(b.attributes)
    assert all(same_values(v, b.attributes[k]) for k, v in a.attributes.items())
    assert same(a.metadata, b.metadata)


@each_format
@pytest.mark.parametrize("size", [1, 7, M, M + 1])
def test_reading_in_chunks_is_reading_the_whole(fmt: Format, size: int, tmp_path: Path) -> None:
    path = tmp_path / f"cloud{fmt.suffixes[0]}"
    write_and_hear(path, PointCloud(coordinates()["utm"], SETS["everything"], METADATA), fmt)
    whole = read(path)
    with open_reader(path) as reader:
        header = reader.header
        chunks = list(reader.chunks(size))
    assert [len(chunk) for chunk in chunks] == [min(size, M - i) for i in range(0, M, size)]
    assert_same_cloud(PointCloud.concatenate(chunks), whole)
    assert all(same(chunk.metadata, whole.metadata) for chunk in chunks)
    assert header.count in (None, M)
    assert header.fields == Header.of(whole).fields
    assert list(header.fields) == list(whole.attributes)
    assert same(header.metadata, whole.metadata)


@each_format
@pytest.mark.parametrize("size", [1, 7, M])
@pytest.mark.parametrize("count", [M, None])
def test_writing_in_chunks_is_writing_the_whole(
    fmt: Format, size: int, count: int | None, tmp_path: Path
) -> None:
    # The widest integers are left out: without seeing all values, a format that has no room
    # for them must refuse what it would have written.
    attributes = {k: v for k, v in SETS["everything"].items() if k not in ("label_i8", "label_u8")}
    cloud = PointCloud(coordinates()["utm"], attributes, METADATA)
    whole, parts = (tmp_path / f"{name}{fmt.suffixes[0]}" for name in ("whole", "parts"))
    told = write_and_hear(whole, cloud, fmt)
    header = Header.of(cloud)
    header = Header(count, header.fields, header.metadata, header.point_dtype)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with open_writer(parts, header) as writer:
            for start in range(0, M, size):
                writer.write(cloud[start : start + size])
    assert [str(w.message) for w in caught] == ([told] if told else [])
    first, second = read(whole), read(parts)
    if fmt.name in ("las", "laz"):  # the offset is chosen by the points that are known
        assert_points(fmt, cloud, second)
        second = second.with_points(first.points)
        for back in (first, second):
            back.metadata["las"] = {}
    assert_same_cloud(first, second)


@each_format
def test_a_header_may_count_more_points_than_come(fmt: Format, tmp_path: Path) -> None:
    cloud = PointCloud(coordinates()["float32"], SETS["colors-u1"])
    path = tmp_path / f"cloud{fmt.suffixes[0]}"
    with open_writer(path, Header.of(cloud)) as writer:
        writer.write(cloud[:6])
    back = read(path)
    assert_points(fmt, cloud[:6], back)
    assert same_values(back.attributes["colors"], cloud.attributes["colors"][:6])


# All or nothing


@each_format
def test_an_error_between_chunks_leaves_the_old_file(fmt: Format, tmp_path: Path) -> None:
    path = tmp_path / f"cloud{fmt.suffixes[0]}"
    cloud = PointCloud(coordinates()["float32"], SETS["colors-u1"])
    write(path, cloud)
    before = path.read_bytes()

    def fail_half_way() -> None:
        with open_writer(path, Header.of(cloud)) as writer:
            writer.write(cloud[:5])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_half_way()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@each_format
def test_chunks_must_have_the_attributes_of_the_header(fmt: Format, tmp_path: Path) -> None:
    path = tmp_path / f"cloud{fmt.suffixes[0]}"
    cloud = PointCloud(coordinates()["float32"], SETS["colors-u1"])

    def change_attributes() -> None:
        with open_writer(path, Header.of(cloud)) as writer:
            writer.write(cloud[:5])
            writer.write(PointCloud(cloud.points[5:]))

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


FULL_DISK = """
    import resource, signal, sys
    import numpy as np
    from pdflow import PointCloud, write
    from pdflow.errors import PdflowError

    path = sys.argv[1]
    count = 20_000
    cloud = PointCloud(np.random.default_rng(0).normal(size=(count, 3)), {"id": np.arange(count)})
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    try:
        write(path, cloud)
    except PdflowError as error:
        print(error)
"""


@each_format
def test_a_full_disk_leaves_the_old_file(fmt: Format, tmp_path: Path) -> None:
    """The system refuses files beyond a size, as a full disk would, in a process of its own."""
    path = tmp_path / f"cloud{fmt.suffixes[0]}"
    write(path, PointCloud(coordinates()["small"]))
    before = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert path.read_bytes() == before
    assert done.returncode == 0, done.stderr
    assert f"{path} could not be written" in done.stdout
    assert list(tmp_path.iterdir()) == [path]
