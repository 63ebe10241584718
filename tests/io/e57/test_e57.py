"""E57: scans with poses, checked with pye57; every field and header entry comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pye57
import pytest
from pye57 import libe57

from pdflow import PointCloud
from pdflow.errors import LossWarning, MissingExtraError, PdflowError
from pdflow.io import drop_nonfinite, read, write
from pdflow.io.e57.fields import record_bits

WKT = 'PROJCS["UTM zone 32N",GEOGCS["ETRS89"],UNIT["metre",1],AUTHORITY["EPSG","25832"]]'
Fields = dict[str, tuple[Any, np.ndarray]]
MakeFile = Callable[..., None]


def test_scans_are_in_the_common_frame(two_scans: Any) -> None:
    path, local = two_scans.path, two_scans.local
    cloud = read(path)
    expected = [
        p @ turn.rotation_matrix.T + shift
        for p, turn, shift in zip(local, two_scans.turns, two_scans.shifts, strict=True)
    ]
    np.testing.assert_allclose(cloud.points, np.concatenate(expected), rtol=0, atol=2e-9)
    assert cloud.attributes["scan"].tolist() == [0] * 50 + [1] * 30
    with pye57.E57(str(path)) as judge:
        theirs = judge.read_scan(0, ignore_missing_fields=True)
    np.testing.assert_allclose(cloud.points[:50, 1], theirs["cartesianY"], rtol=0, atol=2e-9)


def test_fields_and_header(two_scans: Any) -> None:
    cloud = read(two_scans.path)
    types = {name: (v.dtype.name, v.shape[1:]) for name, v in cloud.attributes.items()}
    assert types == {
        "intensity": ("uint16", ()),
        "rowIndex": ("uint32", ()),
        "timeStamp": ("float64", ()),
        "ext:quality": ("float32", ()),
        "colors": ("uint8", (3,)),
        "normals": ("float32", (3,)),
        "scan": ("int32", ()),
    }
    e57 = cloud.metadata["e57"]
    assert cloud.metadata["crs"] == WKT
    assert (e57["guid"], e57["ext:owner"]) == ("{file}", "someone")
    assert e57["creationDateTime"]["dateTimeValue"] == 1.25
    assert e57["images2D"][0]["jpegImage"] == b"\1\2\3\4"
    first, second = e57["scans"]
    assert (first["name"], second["guid"]) == ("station 0", "{scan 1}")
    assert first["pose"] == two_scans.poses[0]
    assert first["acquisitionStart"]["dateTimeValue"] == 1e9
    assert first["intensityLimits"]["intensityMaximum"] == 4095
    assert "timeStamp" in second["pdflow:absent"]
    assert np.isnan(cloud.attributes["timeStamp"][50:]).all()
    assert not cloud.attributes["colors"][50:].any()


def test_normals_turn_with_their_scan(two_scans: Any) -> None:
    normals = read(two_scans.path).attributes["normals"][:50]
    back = normals @ two_scans.turns[0].rotation_matrix
    np.testing.assert_allclose(np.abs(back).max(1), 1, atol=1e-6)


@pytest.mark.parametrize("between", ["e57", "npz", "laz"])
def test_several_scans_survive(two_scans: Any, tmp_path: Path, between: str) -> None:
    cloud = read(two_scans.path)
    step, target = tmp_path / f"step.{between}", tmp_path / "end.e57"
    write(step, cloud)
    write(target, read(step))
    again = read(target)
    again.metadata.pop("las", None)
    np.testing.assert_allclose(again.points, cloud.points, rtol=0, atol=1e-4)
    if between != "laz":
        np.testing.assert_allclose(again.points, cloud.points, rtol=0, atol=4e-9)
    assert again.metadata == cloud.metadata
    assert set(again.attributes) == set(cloud.attributes)
    for name, values in cloud.attributes.items():
        assert again.attributes[name].dtype == values.dtype
        np.testing.assert_allclose(again.attributes[name], values, rtol=1e-6, atol=1e-6)
    with pye57.E57(str(target)) as judge:
        header = judge.get_header(1)
        assert header.node["name"].value() == "station 1"
        assert header.point_fields == ["cartesianX", "cartesianY", "cartesianZ", "intensity"]
        np.testing.assert_allclose(header.translation, two_scans.shifts[1])
        raw = judge.read_scan_raw(1)
    np.testing.assert_allclose(raw["cartesianZ"], two_scans.local[1][:, 2], atol=2e-4)


def test_points_of_one_scan_can_be_removed(two_scans: Any, tmp_path: Path) -> None:
    cloud = read(two_scans.path)
    write(tmp_path / "a.e57", cloud[50:])
    again = read(tmp_path / "a.e57")
    assert again.attributes["scan"].tolist() == [1] * 30
    assert [s["name"] for s in again.metadata["e57"]["scans"]] == ["station 0", "station 1"]
    np.testing.assert_allclose(again.points, cloud.points[50:], rtol=0, atol=1e-9)


def test_points_of_mixed_scans_are_sorted_with_a_warning(two_scans: Any, tmp_path: Path) -> None:
    cloud = read(two_scans.path)
    with pytest.warns(LossWarning, match="E57 cannot hold points in this order"):
        write(tmp_path / "turned.e57", cloud[::-1])
    back = read(tmp_path / "turned.e57")
    by_scan = np.argsort(cloud.attributes["scan"][::-1], kind="stable")
    np.testing.assert_allclose(back.points, cloud[::-1].points[by_scan], atol=1e-9)
    np.testing.assert_array_equal(back.attributes["scan"], np.sort(cloud.attributes["scan"]))


def test_scans_without_the_attribute_scan(two_scans: Any, tmp_path: Path) -> None:
    cloud = read(two_scans.path)
    del cloud.attributes["scan"]
    with pytest.warns(LossWarning, match=r"e57\.scans"):
        write(tmp_path / "a.e57", cloud)
    np.testing.assert_array_equal(read(tmp_path / "a.e57").points, cloud.points)


def test_cloud_from_another_format_is_one_scan(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cloud = PointCloud(
        rng.normal(size=(20, 3)) + np.array([5e6, 0, 0]),
        {
            "colors": rng.integers(0, 256, (20, 3)).astype(np.uint8),
            "intensity": rng.random(20).astype(np.float32),
            "scan": rng.integers(0, 3, 20).astype(np.int32),
            "big": rng.integers(0, 2**64, 20, np.uint64),
            "flag": rng.random(20) < 0.5,
            "wide": rng.normal(size=(20, 5)),
            "half": rng.normal(size=20).astype(np.float16),
        },
        {"comments": ["a", "ü"], "crs": "EPSG:25832", "las": {"blob": b"\0\xff"}},
    )
    write(tmp_path / "a.e57", cloud)
    again = read(tmp_path / "a.e57")
    np.testing.assert_array_equal(again.points, cloud.points)
    for name, values in cloud.attributes.items():
        assert again.attributes[name].dtype == values.dtype, name
        np.testing.assert_array_equal(again.attributes[name], values, err_msg=name)
    assert {k: v for k, v in again.metadata.items() if k != "e57"} == cloud.metadata
    with pye57.E57(str(tmp_path / "a.e57")) as judge:
        assert judge.scan_count == 1
        theirs = judge.read_scan_raw(0, ignore_unsupported_fields=True)
    np.testing.assert_array_equal(theirs["cartesianX"], cloud.points[:, 0])
    np.testing.assert_array_equal(theirs["colorGreen"], cloud.attributes["colors"][:, 1])
    write(tmp_path / "b.e57", cloud)
    assert (tmp_path / "a.e57").read_bytes() == (tmp_path / "b.e57").read_bytes()


def test_losses_are_named_once(tmp_path: Path) -> None:
    cloud = PointCloud(
        np.eye(3),
        {"text": np.array(["a", "b", "c"]), "kept": np.arange(3)},
        {"open": {1}, "e57": {"scans": [{"name": "a\x01b", "temperature": np.nan}]}},
    )
    with pytest.warns(LossWarning) as caught:
        write(tmp_path / "a.e57", cloud)
    assert len(caught) == 1
    for name in ("text", "open", "e57.scans[0].name", "e57.scans[0].temperature"):
        assert repr(name) in str(caught[0].message)
    assert set(read(tmp_path / "a.e57").attributes) == {"kept"}


def test_spherical_scan_becomes_cartesian(
    tmp_path: Path, two_scans: Any, make_file: MakeFile
) -> None:
    rng = np.random.default_rng(0)
    distance, azimuth = rng.uniform(1, 9, 40), rng.uniform(-3, 3, 40)
    elevation = rng.uniform(-1.5, 1.5, 40)
    state = np.zeros(40, np.uint8)
    state[:3] = [2, 2, 1]
    fields = {
        "sphericalRange": ("double", distance),
        "sphericalAzimuth": ("double", azimuth),
        "sphericalElevation": ("double", elevation),
        "sphericalInvalidState": ((0, 2), state),
    }
    make_file(tmp_path / "a.e57", [({"guid": "s", "pose": two_scans.poses[1]}, fields)])
    cloud = read(tmp_path / "a.e57")
    local = pye57.utils.convert_spherical_to_cartesian(np.stack([distance, azimuth, elevation], 1))
    expected = local @ two_scans.turns[1].rotation_matrix.T + two_scans.shifts[1]
    np.testing.assert_allclose(cloud.points[3:], expected[3:], atol=2e-9)
    assert np.isnan(cloud.points[:3]).all()
    assert cloud.attributes["cartesianInvalidState"].tolist() == state.tolist()
    toward = cloud.attributes["direction"]
    np.testing.assert_allclose(toward[2], expected[2] - two_scans.shifts[1], atol=2e-9)

    write(tmp_path / "b.e57", cloud)
    again = read(tmp_path / "b.e57")
    np.testing.assert_allclose(again.points, cloud.points, rtol=0, atol=4e-9)
    np.testing.assert_allclose(again.attributes["direction"], toward, atol=1e-12)
    good, dropped = drop_nonfinite(again)
    assert dropped == 3
    write(tmp_path / "c.e57", good)
    assert set(read(tmp_path / "c.e57").attributes) == {"cartesianInvalidState"}


def test_scaled_integers(tmp_path: Path, make_file: MakeFile) -> None:
    values = np.arange(-5, 5) * 0.001 + 2.0

    def scaled(file: Any) -> Any:
        return libe57.ScaledIntegerNode(file, 0, -(10**6), 10**6, 0.001, 2.0)

    names = ("cartesianX", "cartesianY", "cartesianZ", "intensity")
    make_file(tmp_path / "a.e57", [({"guid": "s"}, dict.fromkeys(names, (scaled, values)))])
    cloud = read(tmp_path / "a.e57")
    np.testing.assert_allclose(cloud.points, np.stack([values] * 3, 1), atol=1e-12)
    write(tmp_path / "b.e57", cloud)
    again = read(tmp_path / "b.e57")
    np.testing.assert_array_equal(again.points, cloud.points)
    np.testing.assert_array_equal(again.attributes["intensity"], cloud.attributes["intensity"])


@pytest.mark.parametrize(
    "e57",
    [7, {"scans": [1]}, {"scans": 3}, {"extensions": {"a": 1}}, {"scans": [{"pose": "x"}]}],
)
def test_malformed_metadata_gives_one_sentence(tmp_path: Path, e57: Any) -> None:
    with pytest.raises(PdflowError, match=r"metadata\['e57'\]"):
        write(tmp_path / "a.e57", PointCloud(np.eye(3), metadata={"e57": e57}))
    assert not list(tmp_path.iterdir())


def test_invalid_pose_is_refused(
    tmp_path: Path, two_scans: Any, make_file: MakeFile, unit_points: Fields
) -> None:
    header = {"guid": "s", "pose": two_scans.poses[0]}
    header["pose"]["rotation"] = dict.fromkeys("wxyz", 0.0)
    make_file(tmp_path / "a.e57", [(header, unit_points)])
    with pytest.raises(PdflowError, match=r"a\.e57: the pose of scan 0"):
        read(tmp_path / "a.e57")


def test_damaged_files(two_scans: Any, tmp_path: Path) -> None:
    data = two_scans.path.read_bytes()
    path = tmp_path / "a.e57"
    for end in (1, 47, 48, 500, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        with pytest.raises(PdflowError, match=r"a\.e57") as caught:
            read(path)
        assert "\n" not in str(caught.value)
    rng = np.random.default_rng(0)
    for _ in range(60):
        changed = bytearray(data)
        changed[rng.integers(0, len(data))] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        with pytest.raises(PdflowError, match=r"a\.e57"):
            read(path)


def test_constant_fields_are_read_but_are_no_bomb(
    tmp_path: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("cartesianX", "cartesianY", "cartesianZ")
    fields: Fields = {name: ((5, 5), np.full(40, 5, np.longlong)) for name in names}
    fields["rowIndex"] = ((0, 1), np.tile(np.longlong([0, 1]), 20))
    make_file(tmp_path / "a.e57", [({"guid": "{a}"}, fields), ({"guid": "{b}"}, fields)])
    cloud = read(tmp_path / "a.e57")
    assert cloud.points.tolist() == [[5, 5, 5]] * 80
    assert cloud.attributes["rowIndex"].tolist() == [0, 1] * 40
    # The library does not write points without any bits, but reads them.
    monkeypatch.setattr("pdflow.io.e57.reader.record_bits", lambda *_: 0)
    monkeypatch.setattr("pdflow.io.e57.reader.CHUNK", 79)
    with pytest.raises(PdflowError, match=r"scan 1 promises 40 points, more than .+ can hold"):
        read(tmp_path / "a.e57")


def test_bits_of_a_point(tmp_path: Path) -> None:
    file = libe57.ImageFile(str(tmp_path / "a.e57"), "w")
    prototype = libe57.StructureNode(file)
    limits = {"none": (5, 5), "one": (0, 1), "all": (-(2**63), 2**63 - 1)}
    for name, (low, high) in limits.items():
        prototype.set(name, libe57.IntegerNode(file, low, low, high))
    assert record_bits(prototype, libe57) == 0 + 1 + 64
    prototype.set("scaled", libe57.ScaledIntegerNode(file, 3, 3, 10, 0.1, 0.0))
    prototype.set("single", libe57.FloatNode(file, 0.0, libe57.E57_SINGLE))
    prototype.set("double", libe57.FloatNode(file, 0.0, libe57.E57_DOUBLE))
    assert record_bits(prototype, libe57) == 65 + 3 + 32 + 64
    file.cancel()


def test_no_scans(tmp_path: Path, make_file: MakeFile) -> None:
    make_file(tmp_path / "a.e57", [])
    with pytest.raises(PdflowError, match="no scans"):
        read(tmp_path / "a.e57")


def test_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_file: MakeFile, unit_points: Fields
) -> None:
    make_file(tmp_path / "a.e57", [({"guid": "s"}, unit_points)])
    cloud = read(tmp_path / "a.e57")
    monkeypatch.setitem(sys.modules, "pye57", None)
    with pytest.raises(MissingExtraError, match=r"Reading E57 .*\[e57\]"):
        read(tmp_path / "a.e57")
    with pytest.raises(MissingExtraError, match=r"Writing E57 .*\[e57\]"):
        write(tmp_path / "b.e57", cloud)
    assert [p.name for p in tmp_path.iterdir()] == ["a.e57"]


def test_equal_clouds_give_equal_files_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np; from pdflow import PointCloud, write; "
        "write(sys.argv[1], PointCloud(np.eye(3), {'normals': np.eye(3, dtype='f2')}))"
    )
    for seed in ("0", "2"):  # which order the names of both extensions differently in a set
        command = [sys.executable, "-c", code, str(tmp_path / f"{seed}.e57")]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
    assert (tmp_path / "0.e57").read_bytes() == (tmp_path / "2.e57").read_bytes()
