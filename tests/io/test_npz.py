"""NPZ: any archive with points, metadata, and nothing pickled."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pdflow import PointCloud, read, write
from pdflow.errors import LossWarning

Same = Callable[[PointCloud, PointCloud], None]
POINTS = np.arange(12.0).reshape(4, 3) + 0.1


def npy_bytes(descr: str, shape: str, data: bytes = b"", order: str = "False") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    ("names", "chosen"),
    [(("colors", "points", "xyz"), 1), (("normals", "xyz"), 1), (("vertices",), 0)],
)
def test_which_array_of_npz_holds_the_points(
    tmp_path: Path, names: tuple[str, ...], chosen: int
) -> None:
    np.savez(tmp_path / "a.npz", **{n: POINTS + i for i, n in enumerate(names)})
    cloud = read(tmp_path / "a.npz")
    np.testing.assert_array_equal(cloud.points, POINTS + chosen)
    assert list(cloud.attributes) == [n for i, n in enumerate(names) if i != chosen]


def test_npz_from_other_software_comes_back_whole(tmp_path: Path) -> None:
    np.savez_compressed(
        tmp_path / "a.npz",
        points=POINTS.astype(np.float32),
        labels=np.arange(4),
        faces=np.array([[0, 1, 2]]),
        version=np.array(3),
        frames=np.zeros((4, 3, 3)),
    )
    first = read(tmp_path / "a.npz")
    write(tmp_path / "b.npz", first)
    for cloud in (first, read(tmp_path / "b.npz")):
        assert list(cloud.attributes) == ["labels"]
        assert cloud.metadata["arrays"]["faces"].tolist() == [[0, 1, 2]]
        assert cloud.metadata["arrays"]["version"] == 3
        assert cloud.metadata["arrays"]["frames"].shape == (4, 3, 3)
    assert set(np.load(tmp_path / "b.npz").files) == set(np.load(tmp_path / "a.npz").files)


def test_npz_keeps_metadata_and_arrays_that_look_like_attributes(
    tmp_path: Path, same_attributes: Same
) -> None:
    arrays = {"rows": np.arange(4), "points": np.arange(2), "": np.arange(3), "f": np.arange(5)}
    metadata = {
        "crs": "EPSG:25832",
        "comments": ["one", " two\nlines "],
        "nested": {"blob": b"\x00\xff", "list": [1.5, None, {"a": np.eye(2)}]},
        "npy": "not ours",
        "arrays": arrays,
    }
    cloud = PointCloud(POINTS, {"points": np.arange(4), "pdflow": np.ones(4)}, metadata)
    write(tmp_path / "a.npz", cloud)
    back = read(tmp_path / "a.npz")
    same_attributes(back, cloud)
    assert set(back.metadata) == set(metadata)
    assert {k: v.tolist() for k, v in back.metadata["arrays"].items()} == {
        k: v.tolist() for k, v in arrays.items()
    }
    assert back.metadata["nested"]["blob"] == b"\x00\xff"
    assert back.metadata["comments"] == metadata["comments"]
    assert np.load(tmp_path / "a.npz")["f"].tolist() == [0, 1, 2, 3, 4]


def test_npz_names_objects_that_it_neither_writes_nor_reads(tmp_path: Path) -> None:
    cloud = PointCloud(POINTS, {"odd": np.array([None] * 4)}, {"strange": object()})
    with pytest.warns(LossWarning, match=r"attribute 'odd' .*metadata 'strange'"):
        write(tmp_path / "a.npz", cloud)
    assert np.load(tmp_path / "a.npz").files == ["points"]

    np.savez(tmp_path / "b.npz", points=POINTS, odd=np.array([None] * 4))
    with zipfile.ZipFile(tmp_path / "b.npz", "a") as archive:
        archive.writestr("README", "hello")
    with pytest.warns(LossWarning, match=r"array 'odd' .*member 'README'"):
        assert list(read(tmp_path / "b.npz").attributes) == []


def zip_of(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return stream.getvalue()


def claim_size(archive: bytes, size: int) -> bytes:
    """The archive with another uncompressed size in its directory."""
    place = archive.rindex(b"PK\x01\x02") + 24
    return archive[:place] + struct.pack("<I", size) + archive[place + 4 :]


def with_equal_places(archive: bytes) -> bytes:
    """The archive with the first member's place in the last entry of its directory."""
    place = archive.rindex(b"PK\x01\x02") + 42
    return archive[:place] + bytes(4) + archive[place + 4 :]


GOOD = npy_bytes("'<f8'", "(2, 3)", bytes(48))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"PK\x03\x04", "not a valid NPZ file"),
        (zip_of(points=GOOD)[:-10], "not a valid NPZ file"),
        (zip_of(points=GOOD[:-1]), "array 'points': the header promises 48 bytes"),
        (zip_of(points=b"text"), "array 'points' is not in NPY format"),
        (claim_size(zip_of(points=GOOD), 2**32 - 2), "claim 4294967294 bytes"),
        (with_equal_places(zip_of(points=GOOD, more=GOOD)), "'points.npy' and 'more.npy' overlap"),
        (zip_of(a=GOOD, b=GOOD), "holds 2 arrays that could be the points"),
        (zip_of(a=npy_bytes("'<f8'", "(6,)", bytes(48))), "holds 0 arrays"),
        (zip_of(), "among: nothing"),
        (zip_of(points=npy_bytes("'<f8'", "(0, 3)")), "holds no points"),
    ],
)
def test_damaged_npz(
    tmp_path: Path, data: bytes, expected: str, refused: Callable[..., None]
) -> None:
    refused(tmp_path / "a.npz", data, expected)


def test_the_arrays_of_a_file_are_limited_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    np.savez_compressed(tmp_path / "a.npz", points=np.zeros((500, 3)), more=np.zeros((500, 3)))
    assert len(read(tmp_path / "a.npz")) == 500
    monkeypatch.setattr("pdflow.io.npz.SMALL", 20_000)  # one array has 12,128 bytes
    monkeypatch.setattr("pdflow.io.npz.MAX_EXPANSION", 2)
    refused(tmp_path / "b.npz", (tmp_path / "a.npz").read_bytes(), "claim 24256 bytes")
