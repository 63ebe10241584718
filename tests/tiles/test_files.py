"""Everything in a file but its coordinates stays, whatever its format; and odd clouds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import laspy
import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io import read, write
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import Denoiser
from pdflow.tiles.assemble import Results
from pdflow.tiles.run import TileRun

MakeRun = Callable[..., TileRun]


def las_file(path: Path, points: np.ndarray) -> Path:
    """A file with extra bytes, a VLR, an EVLR and a CRS."""
    header = laspy.LasHeader(version="1.4", point_format=7)
    header.scales, header.offsets = [0.001, 0.002, 0.001], [4e5, 5e6, 0]
    header.system_identifier, header.file_source_id = "scanner 7", 17
    header.add_extra_dims([laspy.ExtraBytesParams("height", np.float32, "above ground")])
    header.vlrs.append(laspy.VLR("pdflow", 7, "note", b"a note"))
    cloud = laspy.LasData(header)
    cloud.xyz = points
    rng = np.random.default_rng(0)
    for name in ("intensity", "red", "green", "blue", "classification", "return_number"):
        cloud[name] = rng.integers(1, 8, len(points))
    cloud.gps_time, cloud["height"] = rng.random(len(points)), rng.random(len(points))
    cloud.evlrs = laspy.vlrs.vlrlist.VLRList([laspy.VLR("pdflow", 8, "long", b"x" * 70_000)])
    cloud.write(path)
    return path


def test_las_keeps_header_vlrs_evlrs_and_extra_bytes(
    tmp_path: Path, strip: PointCloud, tile_run: MakeRun
) -> None:
    source = las_file(tmp_path / "noisy.laz", strip.points)
    tile_run([source], [tmp_path / "clean.laz"], iterations=1)()
    before, after = laspy.read(source), laspy.read(tmp_path / "clean.laz")
    for name in ("scales", "offsets", "version", "point_format", "uuid", "creation_date"):
        assert np.all(getattr(before.header, name) == getattr(after.header, name)), name
    assert before.header.system_identifier == after.header.system_identifier
    for kind in ("vlrs", "evlrs"):
        pairs = zip(getattr(before, kind), getattr(after, kind), strict=True)
        assert all(a.record_data_bytes() == b.record_data_bytes() for a, b in pairs)
    for name in before.point_format.dimension_names:
        if name not in "XYZ":
            assert np.array_equal(before[name], after[name]), name
    assert not np.array_equal(before.X, after.X)


@pytest.mark.data
@pytest.mark.parametrize("name", ["simple.laz", "simple.copc.laz"])
def test_real_files_keep_all_but_their_coordinates(
    tmp_path: Path, tile_run: MakeRun, shared: Path, name: str
) -> None:
    source = shared / "data" / "real" / name
    tile_run([source], [tmp_path / "clean.laz"], iterations=1)()
    before, after = read(source), read(tmp_path / "clean.laz")
    assert before.attributes.keys() == after.attributes.keys()
    for attribute, values in before.attributes.items():
        assert np.array_equal(values, after.attributes[attribute]), attribute
    # Header, VLRs and EVLRs are all there is besides points.
    assert before.metadata == after.metadata


@pytest.mark.parametrize("suffix", [".ply", ".xyz", ".csv", ".pcd", ".npz", ".e57"])
def test_formats_keep_rows_and_attributes(
    tmp_path: Path, strip: PointCloud, tile_run: MakeRun, suffix: str
) -> None:
    source, target = tmp_path / f"noisy{suffix}", tmp_path / f"clean{suffix}"
    write(source, strip)
    tile_run([source], [target], iterations=1, displacement=suffix == ".ply")()
    before, after = read(source), read(target)
    assert np.array_equal(before.attributes["intensity"], after.attributes["intensity"])
    shift = after.points - before.points
    assert np.linalg.norm(shift, axis=1).mean() > 0.01
    if suffix == ".ply":
        assert np.allclose(after.attributes["displacement"], shift, atol=1e-6)


@pytest.fixture
def scans(tmp_path: Path, strip: PointCloud) -> Path:
    """An E57 file of three scans with poses, whose points are not sorted along the strip."""
    turn = {"w": 0.8, "x": 0.0, "y": 0.0, "z": 0.6}
    headers = [
        {
            "guid": f"{{{number}}}",
            "name": f"station {number}",
            "pose": {"rotation": turn, "translation": {"x": 4e5 + number, "y": 5e6, "z": 100.0}},
        }
        for number in range(3)
    ]
    number = np.repeat(np.arange(3, dtype=np.int32), [3000, 500, 4500])
    cloud = PointCloud(
        strip.points, {**strip.attributes, "scan": number}, {"e57": {"scans": headers}}
    )
    write(tmp_path / "scans.e57", cloud)
    return tmp_path / "scans.e57"


def test_scans_in_tiles_equal_the_whole(
    tmp_path: Path, scans: Path, tile_run: MakeRun, small_model: PDFlow
) -> None:
    before, target = read(scans), tmp_path / "clean.e57"
    whole = Denoiser(small_model, iterations=1, partitions=1, outliers="mark")(before).cloud
    write(tmp_path / "whole.e57", whole)
    tile_run([scans], [target], iterations=1, outliers="mark")()
    after, expected = read(target), read(tmp_path / "whole.e57")
    assert after.metadata == expected.metadata == before.metadata
    assert list(after.attributes) == list(expected.attributes)
    for name, values in expected.attributes.items():
        assert after.attributes[name].dtype == values.dtype
        assert np.array_equal(after.attributes[name], values), name
    gaps = np.linalg.norm(after.points - expected.points, axis=1)
    assert np.mean(gaps < 1e-3) > 0.999
    assert np.linalg.norm(after.points - before.points, axis=1).mean() > 0.01


def test_scans_that_were_stopped_while_they_were_written(
    tmp_path: Path, scans: Path, tile_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "clean.e57"
    tile_run([scans], [target], iterations=1)()
    straight = target.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("pdflow.tiles.index.CHUNK", 1000)
        taken = Results.take

        def take_some(self: Results, points: np.ndarray) -> np.ndarray:
            if self.taken.sum() > 3500:
                raise KeyboardInterrupt
            return taken(self, points)

        patch.setattr(Results, "take", take_some)
        with pytest.raises(KeyboardInterrupt):
            tile_run([scans], [target], iterations=1)()
    assert target.read_bytes() == straight
    target.unlink()
    tile_run([scans], [target], iterations=1)()
    assert target.read_bytes() == straight


def test_nan_is_refused_or_dropped(tmp_path: Path, strip: PointCloud, tile_run: MakeRun) -> None:
    points = strip.points.copy()
    points[3000, 1] = np.nan
    write(tmp_path / "noisy.ply", PointCloud(points))
    with pytest.raises(PdflowError, match="row 3000 "):
        tile_run([tmp_path / "noisy.ply"], [tmp_path / "clean.ply"], iterations=1)()
    [(totals, report)] = tile_run(
        [tmp_path / "noisy.ply"], [tmp_path / "other.ply"], iterations=1, drop=True
    )()
    assert (totals.dropped, report.points_out) == (1, len(points) - 1)
    assert len(read(tmp_path / "other.ply")) == len(points) - 1


def test_odd_tiles(tmp_path: Path, strip: PointCloud, tile_run: MakeRun) -> None:
    """A dense heap of equal points, a far group too small for a surface, and scattered outliers."""
    rng = np.random.default_rng(1)
    middle = strip.points.mean(axis=0)
    heap = np.repeat(strip.points[:1], 3000, axis=0)
    few = middle + np.array([0, 500, 0]) + rng.random((20, 3))
    scattered = middle + rng.uniform(-2000, 2000, (200, 3)) * [1, 1, 0.1]
    points = np.concatenate([strip.points, heap, few, scattered])
    write(tmp_path / "noisy.ply", PointCloud(points))
    [(_, report)] = tile_run([tmp_path / "noisy.ply"], [tmp_path / "clean.ply"], iterations=1)()
    clean = read(tmp_path / "clean.ply").points
    assert np.isfinite(clean).all()
    assert len(np.unique(clean[len(strip) : len(strip) + 3000], axis=0)) == 1
    assert np.array_equal(clean[len(strip)], clean[0])
    assert report.outliers >= 150


@pytest.mark.parametrize("count", [1, 40])
def test_a_file_with_hardly_any_points_is_refused_in_one_sentence(
    tmp_path: Path, strip: PointCloud, tile_run: MakeRun, count: int
) -> None:
    write(tmp_path / "noisy.ply", strip[:count])
    with pytest.raises(PdflowError, match=f"{count} distinct points"):
        tile_run([tmp_path / "noisy.ply"], [tmp_path / "clean.ply"], iterations=1)()


def test_a_small_file_beside_a_large_one(
    tmp_path: Path, strip: PointCloud, tile_run: MakeRun
) -> None:
    write(tmp_path / "a.ply", strip)
    write(tmp_path / "b.ply", strip[:1])
    outputs = [tmp_path / "out-a.ply", tmp_path / "out-b.ply"]
    tile_run([tmp_path / "a.ply", tmp_path / "b.ply"], outputs, iterations=1)()
    assert np.array_equal(read(outputs[1]).points[0], read(outputs[0]).points[0])


def test_an_input_is_not_replaced(tmp_path: Path, strip: PointCloud, tile_run: MakeRun) -> None:
    write(tmp_path / "noisy.ply", strip)
    with pytest.raises(PdflowError, match="is an input"):
        tile_run([tmp_path / "noisy.ply"], [tmp_path / "noisy.ply"])()
