"""The ground of all formats: the registry, atomic writes, metadata as text, finite points."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pdflow import PointCloud, read, read_mesh, write, write_mesh
from pdflow.errors import PdflowError
from pdflow.io import FORMATS, atomic_path, drop_nonfinite, find_format, require_finite
from pdflow.io.metadata import decode_metadata, encode_metadata
from pdflow.io.registry import PACKED
from pdflow.mesh import TriangleMesh

# Registry


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_every_format_is_found_by_name_and_by_each_suffix_in_any_case(fmt: Any) -> None:
    assert find_format(Path("cloud.unknown"), fmt.name.upper()) is fmt
    for suffix in fmt.suffixes:
        assert find_format(Path(f"folder.xyz/cloud{suffix.upper()}")) is fmt


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_every_module_offers_what_the_table_says(fmt: Any) -> None:
    module = fmt.load()
    if fmt.points:
        assert hasattr(module, "read") or hasattr(module, "open_reader")
        assert hasattr(module, "write") or hasattr(module, "open_writer")
    if fmt.mesh:
        assert callable(module.read_mesh)
        assert callable(module.write_mesh)


def test_suffixes_and_names_are_unique() -> None:
    suffixes = [suffix for fmt in FORMATS for suffix in fmt.suffixes]
    names = [fmt.name for fmt in FORMATS]
    assert len(set(suffixes)) == len(suffixes)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "format", "expected"),
    [
        ("cloud.doc", None, "cloud.doc has the suffix '.doc', so its format is unknown"),
        ("cloud", None, "cloud has no suffix, so its format is unknown"),
        ("cloud.ply", "docx", "Unknown format 'docx'"),
    ],
)
def test_unknown_formats_list_the_known_ones(name: str, format: str | None, expected: str) -> None:
    with pytest.raises(PdflowError, match=expected) as caught:
        find_format(Path(name), format)
    assert all(fmt.name in str(caught.value) for fmt in FORMATS)


@pytest.mark.parametrize("suffix", sorted(PACKED))
def test_packed_files_are_to_be_unpacked(tmp_path: Path, suffix: str) -> None:
    for path in (tmp_path / f"a.xyz{suffix}", tmp_path / "a.xyz", tmp_path / "a.ply"):
        path.write_bytes(PACKED[suffix] + bytes(99))
        if suffix == ".zip" and path.suffix != suffix:
            continue  # it could be NPZ, whatever its name
        with pytest.raises(PdflowError, match=rf"{path.name} is packed: unpack it first"):
            read(path)


def test_a_mesh_is_no_cloud_and_a_cloud_no_mesh(tmp_path: Path) -> None:
    mesh = TriangleMesh(np.eye(3), [[0, 1, 2]])
    write_mesh(tmp_path / "a.off", mesh)
    with pytest.raises(PdflowError, match="off holds meshes, not clouds"):
        read(tmp_path / "a.off")
    with pytest.raises(PdflowError, match="holds meshes"):
        write(tmp_path / "b.stl", PointCloud(np.eye(3)))
    with pytest.raises(PdflowError, match="npy holds no mesh"):
        read_mesh(tmp_path / "a.npy")
    with pytest.raises(PdflowError, match="npy holds no mesh"):
        write_mesh(tmp_path / "b.npy", mesh)
    assert [p.name for p in tmp_path.iterdir()] == ["a.off"]


# Atomic writes


def test_the_new_file_takes_the_place_of_the_old_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    path.chmod(0o640)
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".txt"
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with atomic_path(tmp_path / "atomic") as temporary:
        temporary.write_text("")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def fail_half_way(path: Path, error: BaseException) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text("half")
        raise error


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_any_error_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(error):
        fail_half_way(path, error())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PdflowError, match=r"out.txt could not be written \(No space left"):
        fail_half_way(tmp_path / "out.txt", OSError(28, "No space left on device"))
    assert list(tmp_path.iterdir()) == []


def test_the_temporary_file_has_the_suffix_that_its_writer_looks_at(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "out.data", suffix=".laz") as temporary:
        assert temporary.suffix == ".laz"
    assert [p.name for p in tmp_path.iterdir()] == ["out.data"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    target, link = tmp_path / "deep" / "real.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    with atomic_path(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", "is a directory"),
        ("no/such/out.txt", "does not exist"),
        ("x" * 300, "cannot be written"),
        ("file/out.txt", "does not exist"),
        ("pipe", "is a device or a pipe"),
    ],
)
def test_targets_that_cannot_be_files(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(PdflowError, match=expected), atomic_path(tmp_path / name):
        pass
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_write_protected_files_and_folders(tmp_path: Path) -> None:
    path = tmp_path / "raw.txt"
    path.write_text("raw")
    path.chmod(0o444)
    with pytest.raises(PdflowError, match="write-protected"), atomic_path(path):
        pass
    tmp_path.chmod(0o555)
    with pytest.raises(PdflowError, match="cannot be written"), atomic_path(tmp_path / "new"):
        pass
    tmp_path.chmod(0o755)
    assert path.read_text() == "raw"


# Metadata as text

ARRAYS = hnp.arrays(
    dtype=st.one_of(
        hnp.scalar_dtypes(),
        hnp.unicode_string_dtypes(min_len=1, max_len=4),
        hnp.byte_string_dtypes(min_len=1, max_len=4),
    ),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
VALUES = st.recursive(
    LEAVES | ARRAYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def same(a: Any, b: Any) -> bool:
    """Equality that also looks at dtypes and at every bit of an array."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_metadata_come_back_from_lines_of_ascii(metadata: dict[str, Any]) -> None:
    lines = encode_metadata(metadata)
    assert all(line.isascii() and line.isprintable() for line in lines)
    back, comments = decode_metadata(lines)
    assert same(back, metadata)
    assert comments == []


def test_structured_arrays_come_back_with_their_padding() -> None:
    inner = np.dtype([("q", "u1"), ("r", "<f4", (2, 2))])
    dtype = np.dtype([("a", "i1"), ("b", ">f8"), ("c", inner)], align=True)
    array = np.ones(2, dtype)
    back, _ = decode_metadata(encode_metadata({"a": array}))
    assert back["a"].dtype == dtype
    assert (back["a"] == array).all()


def test_numpy_scalars_become_plain_numbers() -> None:
    back, _ = decode_metadata(encode_metadata({"a": [np.float32(0.5), np.int8(3), np.True_]}))
    assert back == {"a": [0.5, 3, True]}


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, 1j, {1: 2}, np.array([None]), [np.array([{}])]]
)
def test_what_has_no_encoding_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        encode_metadata({"key": value})


@pytest.mark.parametrize(
    "line",
    [
        "scanned on Monday",
        "pdflow",
        "pdflow is nice",
        "pdflow key",
        "pdflow key {",
        'pdflow "key 1',
        'pdflow key {"!bytes": 3}',
        'pdflow key {"!bytes": "a"}',
        'pdflow key {"!array": "", "dtype": "no", "shape": []}',
        'pdflow key {"!array": "AAAA", "dtype": "<f4", "shape": [1]}',
        'pdflow key {"!array": "AAAA", "dtype": "|O", "shape": [1]}',
        'pdflow key {"!array": "", "dtype": "<f4", "shape": [1000000000000000000000, 0]}',
        'pdflow key {"!array": "", "dtype": [[]], "shape": [0]}',
        'pdflow key {"!array": ""}',
        "pdflow key " + "[" * 100_000,
    ],
)
def test_lines_that_are_no_metadata_stay_comments(line: str) -> None:
    assert decode_metadata([line]) == ({}, [line])


# Points that are no numbers


def test_nonfinite_points_are_refused_or_dropped_with_their_attributes() -> None:
    points = np.arange(15.0).reshape(5, 3)
    points[1, 2], points[4, 0] = np.nan, -np.inf
    cloud = PointCloud(points, {"id": np.arange(5)})
    with pytest.raises(PdflowError, match=r"scan.ply: 2 of 5 points .* row 1: .*--drop-nonfinite"):
        require_finite(cloud, "scan.ply")
    rest, dropped = drop_nonfinite(cloud)
    assert dropped == 2
    assert rest.attributes["id"].tolist() == [0, 2, 3]
    assert require_finite(rest, "scan.ply") is rest
    assert drop_nonfinite(rest) == (rest, 0)
