"""Records, coordinate systems and metadata in LAS."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import laspy
import numpy as np
import pytest

from pdflow import PointCloud
from pdflow.errors import PdflowError
from pdflow.io import read, write
from pdflow.io.las.header import read_header

LaspyCloud = Callable[..., laspy.LasData]
Same = Callable[..., None]

WKT = 'PROJCS["UTM zone 32N",GEOGCS["ETRS89"],UNIT["metre",1],AUTHORITY["EPSG","25832"]]'


def test_records_are_kept_byte_for_byte(
    tmp_path: Path, laspy_cloud: LaspyCloud, assert_same: Same
) -> None:
    source, target = tmp_path / "a.laz", tmp_path / "b.laz"
    made = laspy_cloud(7)
    made.vlrs.append(laspy.VLR("LASF_Spec", 0, "", b"\x07Low point (no)\0"))
    made.vlrs.append(laspy.VLR("someone", 65535, b"x" * 31, bytes(range(256))))
    made.vlrs.append(laspy.VLR("empty", 0, "", b""))
    made.evlrs = laspy.vlrs.vlrlist.VLRList([laspy.VLR("big", 3, "evlr", b"\1\2" * 50_000)])
    made.write(source)
    cloud = read(source)
    write(target, cloud)
    with source.open("rb") as a, target.open("rb") as b:
        before, after = read_header(a, source), read_header(b, target)
    assert after.evlrs == before.evlrs
    assert [v for v in after.vlrs if v.record_id != 22204] == [
        v for v in before.vlrs if v.record_id != 22204
    ]
    assert len(before.vlrs) == 4
    assert laspy.read(target).evlrs[0].record_data == b"\1\2" * 50_000
    assert_same(cloud, read(target))


def test_text_that_is_not_ascii_is_kept(tmp_path: Path, laspy_cloud: LaspyCloud) -> None:
    source, target = tmp_path / "a.las", tmp_path / "b.las"
    laspy_cloud(0, "1.2").write(source)
    data = bytearray(source.read_bytes())
    data[26:58] = "Gerät".encode("latin-1").ljust(32, b"\0")
    data[58:90] = b"a\0b".ljust(32, b"\0")
    source.write_bytes(data)
    cloud = read(source)
    assert cloud.metadata["las"]["system_identifier"] == "Gerät".encode("latin-1")
    write(target, cloud)
    assert target.read_bytes() == bytes(data)


@pytest.mark.parametrize("user", [b"LASF_Spec", b"LAS_Spec"])
def test_waveforms_inside_a_1_3_file(tmp_path: Path, laspy_cloud: LaspyCloud, user: bytes) -> None:
    source, target = tmp_path / "a.las", tmp_path / "b.las"
    made = laspy_cloud(4, "1.3")
    made.header.global_encoding.waveform_data_packets_internal = True
    made.write(source)
    data = bytearray(source.read_bytes())
    data[227:235] = struct.pack("<Q", len(data))
    data += struct.pack("<H16sHQ32s", 0, user, 65535, 5, b"waves") + b"\1\2\3\4\5"
    source.write_bytes(data)
    cloud = read(source)
    assert cloud.metadata["las"]["evlrs"][0]["data"] == b"\1\2\3\4\5"
    write(target, cloud)
    assert target.read_bytes() == bytes(data)


def test_wkt_of_a_file(tmp_path: Path, laspy_cloud: LaspyCloud) -> None:
    source, target = tmp_path / "a.laz", tmp_path / "b.laz"
    made = laspy_cloud(6)
    made.vlrs.append(laspy.vlrs.known.WktCoordinateSystemVlr(WKT))
    made.header.global_encoding.wkt = True
    made.write(source)
    cloud = read(source)
    assert cloud.metadata["crs"] == WKT
    write(target, cloud)
    assert read(target).metadata == cloud.metadata


@pytest.mark.parametrize(
    ("keys", "crs"),
    [
        ([(1024, 0, 1, 1), (3072, 0, 1, 25832)], "EPSG:25832"),
        ([(3072, 0, 1, 25832), (4096, 0, 1, 5783)], "EPSG:25832+5783"),
        ([(2048, 0, 1, 4326)], "EPSG:4326"),
        ([(3072, 0, 1, 32767), (2048, 0, 1, 0)], None),
        ([], None),
    ],
)
def test_codes_in_geotiff_keys(
    tmp_path: Path,
    keys: list[tuple[int, ...]],
    crs: str | None,
    laspy_cloud: LaspyCloud,
) -> None:
    made = laspy_cloud(1, "1.2")
    words = [1, 1, 0, len(keys), *(w for key in keys for w in key)]
    data = struct.pack(f"<{len(words)}H", *words)
    made.vlrs.append(laspy.VLR("LASF_Projection", 34735, "", data))
    made.write(tmp_path / "a.las")
    cloud = read(tmp_path / "a.las")
    assert cloud.metadata.get("crs") == crs
    write(tmp_path / "b.las", cloud)
    assert read(tmp_path / "b.las").metadata == cloud.metadata


def test_crs_of_another_format_becomes_a_wkt_record(tmp_path: Path) -> None:
    path = tmp_path / "a.laz"
    write(path, PointCloud(np.eye(3), metadata={"crs": WKT}))
    header = laspy.read(path).header
    assert header.global_encoding.wkt
    assert header.vlrs.get("WktCoordinateSystemVlr")[0].string == WKT
    assert read(path).metadata["crs"] == WKT


def test_crs_code_and_changed_crs(tmp_path: Path) -> None:
    path = tmp_path / "a.laz"
    write(path, PointCloud(np.eye(3), metadata={"crs": "EPSG:25832"}))
    cloud = read(path)
    assert cloud.metadata["crs"] == "EPSG:25832"
    cloud.metadata["crs"] = WKT
    write(path, cloud)
    assert read(path).metadata["crs"] == WKT
    cloud.metadata = {**read(path).metadata, "crs": "EPSG:4326"}
    write(path, cloud)
    assert read(path).metadata["crs"] == "EPSG:4326"
    assert not laspy.read(path).vlrs.get("WktCoordinateSystemVlr")


@pytest.mark.parametrize("size", [10, 100_000])
def test_metadata_of_other_formats_comes_back(tmp_path: Path, size: int, assert_same: Same) -> None:
    path = tmp_path / "a.laz"
    metadata = {
        "comments": ["one", "zwei ü"],
        "ply": {"faces": b"\0" * size, "n": 3, "deep": [{"a": None}]},
        "e57": {"scans": [{"pose": [1.0, 0.0, 0.5]}]},
    }
    cloud = PointCloud(np.eye(3), {"a": np.arange(3)}, metadata)
    write(path, cloud)
    again = read(path)
    assert_same(cloud, again, las=False)
    assert again.metadata["las"]["vlrs"] == [
        v for v in again.metadata["las"]["vlrs"] if v["user_id"] != "pdflow"
    ]
    write(path, again)
    assert_same(again, read(path))


RECORD = {"user_id": "a", "record_id": 1, "description": "", "data": b""}


@pytest.mark.parametrize(
    "las",
    [
        7,
        {"version": "1.6"},
        {"point_format": 99},
        {"point_format": -1},
        {"scales": [0, 0, 0]},
        {"guid": "x"},
        {"file_source_id": -1},
        {"global_encoding": 65536},
        {"creation_day": 1e9},
        {"system_identifier": 5},
        {"system_identifier": "\ud800"},
        {"header_tail": 5},
        {"header_tail": bytes(65_535)},
        {"vlrs": [1]},
        {"vlrs": [{**RECORD, "record_id": 99999}]},
        {"evlrs": [{**RECORD, "data": "text"}]},
    ],
)
def test_malformed_metadata_gives_one_sentence(tmp_path: Path, las: object) -> None:
    with pytest.raises(PdflowError, match=r"metadata\['las'\]"):
        write(tmp_path / "a.las", PointCloud(np.eye(3), metadata={"las": las}))
    assert not list(tmp_path.iterdir())
