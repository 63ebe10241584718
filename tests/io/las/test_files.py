"""LAS, LAZ and COPC files, checked with laspy: everything that LAS holds stays the same."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import laspy
import numpy as np
import pytest

from pdflow import PointCloud
from pdflow.errors import LossWarning, PdflowError
from pdflow.io import Header, open_reader, open_writer, read, write
from pdflow.io.las.header import LasHeader, Vlr, read_header

LaspyCloud = Callable[..., laspy.LasData]
Same = Callable[..., None]
RawPoints = Callable[[Path], bytes]

EXTRA_TYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"]


# What laspy wrote


@pytest.mark.parametrize("suffix", ["las", "laz"])
@pytest.mark.parametrize("point_format", range(11))
def test_every_point_format(
    tmp_path: Path,
    point_format: int,
    suffix: str,
    laspy_cloud: LaspyCloud,
    assert_same: Same,
    raw_points: RawPoints,
) -> None:
    source, target = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    made = laspy_cloud(point_format, extra=[laspy.ExtraBytesParams("height", "f4")])
    if point_format >= 9 and suffix == "laz":
        made.scanner_channel[:] = 2
    made.write(source)
    cloud = read(source)
    np.testing.assert_array_equal(cloud.points, np.stack([made.x, made.y, made.z], 1))
    names = {d.name for d in made.point_format.dimensions} - {"X", "Y", "Z"}
    if "red" in names:
        rgb = np.stack([made.red, made.green, made.blue], 1)
        np.testing.assert_array_equal(cloud.attributes["colors"], rgb)
        assert cloud.attributes["colors"].dtype == np.uint16
        names = names - {"red", "green", "blue"} | {"colors"}
    assert set(cloud.attributes) == names
    for name in names - {"colors"}:
        expected = np.asarray(made[name])
        assert cloud.attributes[name].dtype == expected.dtype, name
        np.testing.assert_array_equal(cloud.attributes[name], expected)

    write(target, cloud)
    assert_same(cloud, read(target))
    assert raw_points(target) == raw_points(source)
    a, b = laspy.read(source).header, laspy.read(target).header
    for field in ("version", "system_identifier", "generating_software", "creation_date"):
        assert getattr(a, field) == getattr(b, field), field
    for field in ("mins", "maxs", "scales", "offsets", "number_of_points_by_return"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field)


def test_waveforms_that_the_compressor_would_damage(
    tmp_path: Path, laspy_cloud: LaspyCloud
) -> None:
    made = laspy_cloud(9)
    made.write(tmp_path / "a.laz")
    with pytest.raises(PdflowError, match=r"several scanner channels.*\.las"):
        read(tmp_path / "a.laz")
    made.write(tmp_path / "a.las")
    cloud = read(tmp_path / "a.las")
    with pytest.raises(PdflowError, match=r"several scanner channels.*\.las"):
        write(tmp_path / "b.laz", cloud)


@pytest.mark.parametrize(
    ("version", "point_format"), [("1.1", 1), ("1.2", 3), ("1.3", 5), ("1.4", 3), ("1.5", 6)]
)
def test_plain_file_is_byte_for_byte_the_same(
    tmp_path: Path, version: str, point_format: int, laspy_cloud: LaspyCloud
) -> None:
    source, target = tmp_path / "a.las", tmp_path / "b.las"
    laspy_cloud(point_format, version).write(source)
    cloud = read(source)
    write(target, cloud)
    before, after = bytearray(source.read_bytes()), target.read_bytes()
    if version == "1.4":  # laspy leaves out the counters for old readers
        before[107:131] = after[107:131]
    assert bytes(before) == after
    assert cloud.metadata["las"]["version"] == version


def test_las_1_0_with_its_signatures(tmp_path: Path, laspy_cloud: LaspyCloud) -> None:
    source, target = tmp_path / "a.las", tmp_path / "b.las"
    made = laspy_cloud(1, "1.1")
    made.header.extra_vlr_bytes = b"\xdd\xcc"
    made.vlrs.append(laspy.VLR("me", 7, "text", b"12345"))
    made.write(source)
    data = bytearray(source.read_bytes())
    data[25] = 0
    data[227:229] = b"\xbb\xaa"
    source.write_bytes(data)
    cloud = read(source)
    write(target, cloud)
    assert target.read_bytes() == bytes(data)
    assert cloud.metadata["las"]["vlrs"][0]["reserved"] == 0xAABB


def test_extra_bytes_of_every_type_and_width(
    tmp_path: Path,
    laspy_cloud: LaspyCloud,
    assert_same: Same,
    raw_points: RawPoints,
) -> None:
    source, target = tmp_path / "a.laz", tmp_path / "b.laz"
    extra = [
        laspy.ExtraBytesParams(f"{w}{t}", f"{w}{t}" if w > 1 else t, f"text {t}")
        for t in EXTRA_TYPES
        for w in (1, 2, 3)
    ]
    extra.append(laspy.ExtraBytesParams("raw", "7u1"))
    laspy_cloud(3, extra=extra).write(source)
    cloud = read(source)
    for param in extra:
        got = cloud.attributes[param.name]
        assert (got.dtype, got.shape[1:]) == (param.type.base, param.type.shape)
    write(target, cloud)
    assert_same(cloud, read(target))
    assert raw_points(source) == raw_points(target)


def test_scaled_extra_bytes_keep_raw_values_and_their_descriptor(
    tmp_path: Path, laspy_cloud: LaspyCloud
) -> None:
    source, target = tmp_path / "a.las", tmp_path / "b.las"
    extra = [
        laspy.ExtraBytesParams("range", "u2", "metres", offsets=[5.0], scales=[0.01]),
        laspy.ExtraBytesParams("beam", "3i4", "unit", offsets=[0, 1, 2], scales=[0.1, 1, 10]),
        laspy.ExtraBytesParams("gap", "i2", no_data=[-1]),
    ]
    made = laspy_cloud(6, extra=extra)
    made.write(source)
    cloud = read(source)
    assert cloud.attributes["range"].dtype == np.uint16
    write(target, cloud)
    assert target.read_bytes() == source.read_bytes()
    np.testing.assert_array_equal(laspy.read(target)["beam"], made["beam"])


def test_extra_bytes_without_descriptor(tmp_path: Path, laspy_cloud: LaspyCloud) -> None:
    source, target = tmp_path / "a.las", tmp_path / "b.las"
    laspy_cloud(0, "1.2", extra=[laspy.ExtraBytesParams("a", "u2")]).write(source)
    data = bytearray(source.read_bytes())
    (points,) = struct.unpack_from("<I", data, 96)
    data[96:104] = struct.pack("<II", 227, 0)  # points begin at once, no VLRs
    del data[227:points]
    source.write_bytes(data)
    cloud = read(source)
    assert cloud.attributes["ExtraBytes"].shape == (300, 2)
    write(target, cloud)
    assert target.read_bytes() == bytes(data)


def test_extra_bytes_with_the_name_of_another_dimension(
    tmp_path: Path, laspy_cloud: LaspyCloud
) -> None:
    source, target = tmp_path / "a.las", tmp_path / "b.las"
    extra = [laspy.ExtraBytesParams(n, "u2") for n in ("intensite", "colors", "gps_time")]
    laspy_cloud(2, "1.2", extra=extra).write(source)
    data = source.read_bytes().replace(b"intensite", b"intensity")
    source.write_bytes(data)
    cloud = read(source)
    assert {"intensity", "intensity_2", "colors", "colors_2", "gps_time"} <= set(cloud.attributes)
    write(target, cloud)
    assert target.read_bytes() == data


def test_descriptors_larger_than_the_record_are_ignored(
    tmp_path: Path, laspy_cloud: LaspyCloud
) -> None:
    source = tmp_path / "a.las"
    laspy_cloud(0, "1.2", extra=[laspy.ExtraBytesParams("a", "u2")]).write(source)
    data = bytearray(source.read_bytes())
    data[227 + 54 + 2] = 10  # float64 in two bytes
    source.write_bytes(data)
    assert read(source).attributes["ExtraBytes"].shape == (300, 2)


# Real files


def foreign_records(header: LasHeader) -> list[Vlr]:
    """The records that neither the compression nor pdflow needs."""
    return [v for v in header.vlrs if v.user_id not in ("laszip encoded", "pdflow")]


@pytest.mark.data
@pytest.mark.parametrize("name", ["simple.laz", "simple.copc.laz"])
@pytest.mark.parametrize("between", ["laz", "las", "ply", "npz"])
def test_real_files_survive(
    shared: Path,
    tmp_path: Path,
    name: str,
    between: str,
    assert_same: Same,
    raw_points: RawPoints,
) -> None:
    source = shared / "data" / "real" / name
    cloud = read(source)
    step, target = tmp_path / f"step.{between}", tmp_path / "end.laz"
    write(step, cloud)
    write(target, read(step))
    again = read(target)
    again.metadata.pop("ply", None)
    assert_same(cloud, again)
    assert raw_points(source) == raw_points(target)
    with source.open("rb") as a, target.open("rb") as b:
        before, after = read_header(a, source), read_header(b, target)
    assert foreign_records(before) == foreign_records(after)
    np.testing.assert_array_equal(before.counts_by_return, after.counts_by_return)
    np.testing.assert_allclose([before.low, before.high], [after.low, after.high], rtol=1e-15)


@pytest.mark.data
def test_copc_in_chunks(shared: Path) -> None:
    path = shared / "data" / "real" / "simple.copc.laz"
    with open_reader(path) as reader:
        chunks = PointCloud.concatenate(reader.chunks(100))
    made = laspy.read(path)
    np.testing.assert_array_equal(chunks.points, np.stack([made.x, made.y, made.z], 1))
    assert not [v for v in chunks.metadata["las"]["vlrs"] if v["user_id"] == "copc"]
    assert chunks.metadata["crs"].startswith("COMPD_CS[")


def test_copc_suffix_gives_a_warning(tmp_path: Path) -> None:
    cloud = PointCloud(np.eye(3))
    with pytest.warns(LossWarning, match="written as plain LAZ"):
        write(tmp_path / "a.COPC.laz", cloud)
    with (
        pytest.warns(LossWarning, match="written as plain LAZ"),
        open_writer(tmp_path / "b.copc.laz", Header.of(cloud)) as writer,
    ):
        writer.write(cloud)
    assert len(read(tmp_path / "b.copc.laz")) == 3
