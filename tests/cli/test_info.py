from __future__ import annotations

import json

import numpy as np
import pytest

from pdflow import PointCloud, read_mesh, write, write_mesh
from pdflow.cli import survey


def test_json_tells_points_extent_attributes_and_metadata(pdflow, scan, cloud):
    result = json.loads(pdflow("info", scan, "--json").out)
    assert result["file"] == str(scan)
    assert (result["format"], result["kind"], result["points"], result["dropped"]) == (
        "ply",
        "cloud",
        200,
        0,
    )
    np.testing.assert_array_equal(result["min"], cloud.points.min(0))
    np.testing.assert_array_equal(result["max"], cloud.points.max(0))
    np.testing.assert_allclose(result["size"], np.ptp(cloud.points, axis=0))
    colors = cloud.attributes["colors"]
    assert result["attributes"]["colors"] == {
        "dtype": "uint8",
        "width": 3,
        "min": colors.min(0).tolist(),
        "max": colors.max(0).tolist(),
    }
    assert result["attributes"]["quality"]["max"] == cloud.attributes["quality"].max()
    assert result["crs"] is None
    assert result["metadata"]["comments"] == ["made by a test"]


def test_text_tells_the_same_to_people(pdflow, scan, cloud):
    lines = pdflow("info", scan).out.splitlines()
    assert lines[0] == f"{scan}: cloud (ply)"
    assert lines[1].split() == ["points", "200"]
    assert lines[2].split()[:2] == ["extent", "x"]
    assert lines[2].split()[2] == f"{cloud.points[:, 0].min():.12g}"
    assert any(line.split()[:4] == ["attributes", "colors", "uint8", "x"] for line in lines)


def test_spacing_is_the_median_distance_to_the_nearest_other_point(pdflow, scan, cloud):
    distances = np.linalg.norm(cloud.points[:, None] - cloud.points, axis=2)
    np.fill_diagonal(distances, np.inf)
    result = json.loads(pdflow("info", scan, "--json").out)
    assert result["spacing"] == pytest.approx(np.median(distances.min(1)), rel=1e-9)


def test_spacing_of_a_cloud_read_twice_in_chunks_is_the_same(pdflow, scan, monkeypatch):
    whole = pdflow("info", scan, "--json").out
    monkeypatch.setattr(survey, "POINTS_HELD", 100)
    monkeypatch.setattr("pdflow.io.CHUNK", 30)
    assert pdflow("info", scan, "--json").out == whole


def test_spacing_of_a_sample_is_exact_for_each_of_its_points(pdflow, tmp_path, monkeypatch):
    lattice = np.stack(np.meshgrid(*[np.arange(10.0)] * 3), -1).reshape(-1, 3) * 0.25
    write(tmp_path / "lattice.npy", PointCloud(lattice))
    monkeypatch.setattr(survey, "SPACING_SAMPLE", 20)
    assert json.loads(pdflow("info", tmp_path / "lattice.npy", "--json").out)["spacing"] == 0.25


@pytest.mark.parametrize(
    ("points", "spacing"),
    [([[1, 2, 3]], None), ([[0, 0, 0], [3, 4, 0]], 5.0), ([[1, 1, 1]] * 4, 0.0)],
    ids=["one point", "two points", "duplicates"],
)
def test_spacing_of_tiny_clouds(pdflow, tmp_path, points, spacing):
    write(tmp_path / "tiny.npy", PointCloud(points))
    assert json.loads(pdflow("info", tmp_path / "tiny.npy", "--json").out)["spacing"] == spacing


def test_several_files_give_a_list(pdflow, scan, box):
    results = json.loads(pdflow("info", scan, box, "--json").out)
    assert [result["kind"] for result in results] == ["cloud", "mesh"]


def test_a_file_that_cannot_be_read_does_not_stop_the_others(pdflow, scan, box, tmp_path):
    broken = tmp_path / "broken.ply"
    broken.touch()
    done = pdflow("info", scan, broken, box)
    assert done.code == 2
    assert f"{scan}: cloud (ply)" in done.out
    assert f"{box}: mesh (off)" in done.out
    first, last = done.err.splitlines()
    assert first == f"error: {broken} is empty: fetch or export it again."
    assert last == "error: 1 of 3 files could not be read: see above."
    assert len(json.loads(pdflow("info", scan, broken, box, "--json").out)) == 2


def test_a_pattern_may_be_given(pdflow, scan, tmp_path):
    assert json.loads(pdflow("info", tmp_path / "s*.ply", "--json").out)["points"] == 200


def test_meshes_tell_vertices_faces_and_area(pdflow, box):
    result = json.loads(pdflow("info", box, "--json").out)
    assert (result["vertices"], result["faces"], result["size"]) == (8, 12, [1, 2, 3])
    assert result["area"] == pytest.approx(22)
    assert "area" in pdflow("info", box).out


def test_a_ply_with_faces_tells_of_points_and_surface(pdflow, box, tmp_path):
    write_mesh(tmp_path / "box.ply", read_mesh(box))
    result = json.loads(pdflow("info", tmp_path / "box.ply", "--json").out)
    assert (result["kind"], result["points"], result["faces"]) == ("cloud", 8, 12)
    assert result["area"] == pytest.approx(22)


def test_attributes_without_a_range_are_listed_too(pdflow, tmp_path):
    attributes = {
        "label": np.array(["a", "bc"]),
        "hollow": np.array([np.nan, np.nan]),
        "partly": np.array([np.nan, 2.0]),
        "flag": np.array([True, False]),
        "large": np.array([0, 2**63], np.uint64),
    }
    write(tmp_path / "odd.npz", PointCloud(np.eye(3)[:2], attributes))
    result = json.loads(pdflow("info", tmp_path / "odd.npz", "--json").out)["attributes"]
    assert (result["label"]["min"], result["hollow"]["max"]) == (None, None)
    assert (result["partly"]["min"], result["partly"]["max"]) == (2.0, 2.0)
    assert (result["flag"]["min"], result["flag"]["max"]) == (False, True)
    assert result["large"]["max"] == 2**63
    assert pdflow("info", tmp_path / "odd.npz").code == 0


def test_dropped_points_are_counted(pdflow, tmp_path):
    (tmp_path / "holes.xyz").write_text("0 0 0\nnan 0 0\n1 0 0\n")
    result = json.loads(pdflow("info", tmp_path / "holes.xyz", "--drop-nonfinite", "--json").out)
    assert (result["points"], result["dropped"], result["max"]) == (2, 1, [1, 0, 0])
    text = pdflow("info", tmp_path / "holes.xyz", "--drop-nonfinite").out
    assert "1 NaN or infinite" in text


def test_metadata_is_shown_without_its_binary_contents():
    metadata = {"a": b"1234", "b": np.zeros((40, 2)), "c": {"d": (np.int32(1), float("nan"))}}
    assert survey.plain(metadata) == {
        "a": "4 bytes",
        "b": "array of float64 (40, 2)",
        "c": {"d": [1, None]},
    }


def test_crs_is_whole_in_json_and_short_in_text(pdflow, tmp_path, cloud):
    crs = 'PROJCRS["' + "long " * 50 + '"]'
    write(tmp_path / "utm.npz", PointCloud(cloud.points, metadata={"crs": crs}))
    assert json.loads(pdflow("info", tmp_path / "utm.npz", "--json").out)["crs"] == crs
    line = next(x for x in pdflow("info", tmp_path / "utm.npz").out.splitlines() if "crs" in x)
    assert len(line) < 100


def test_noise_is_estimated_on_request(pdflow, tmp_path):
    rng = np.random.default_rng(0)
    plane = 7000 + 10 * rng.random((3000, 3)) * [1, 1, 0]
    write(tmp_path / "noisy.ply", PointCloud(plane + 0.1 * rng.normal(size=plane.shape)))
    assert "noise" not in json.loads(pdflow("info", tmp_path / "noisy.ply", "--json").out)
    result = json.loads(pdflow("info", tmp_path / "noisy.ply", "--noise", "--json").out)
    assert result["noise"] == pytest.approx(0.1, rel=0.1)
    assert result["relative_noise"] == pytest.approx(0.1 / np.hypot(5, 5), rel=0.15)
    assert result["noise_is_reliable"]
    text = pdflow("info", tmp_path / "noisy.ply", "--noise").out
    assert f"{result['noise']:.6g}, estimated" in text
    assert result["noise_kind"] == "independent"
    assert "independent from point to point" in text
    assert 0 < result["noise_error"] < 0.3
    assert "typical error: a factor of 1." in text
    assert "rough" not in text


def test_noise_of_a_stream_is_that_of_a_part_of_it(pdflow, tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    plane = 10 * rng.random((4000, 3)) * [1, 1, 0]
    write(tmp_path / "noisy.ply", PointCloud(plane + 0.1 * rng.normal(size=plane.shape)))
    monkeypatch.setattr(survey, "POINTS_HELD", 2000)
    result = json.loads(pdflow("info", tmp_path / "noisy.ply", "--noise", "--json").out)
    assert result["noise"] == pytest.approx(0.1, rel=0.15)


def test_noise_of_few_points_is_called_rough(pdflow, scan):
    assert "rough" in pdflow("info", scan, "--noise").out


@pytest.mark.parametrize(("returns", "plausible"), [(3, False), (1, True)])
def test_noise_beyond_laser_scanners_is_not_believed(pdflow, tmp_path, returns, plausible):
    rng = np.random.default_rng(0)
    terrain = 200 * rng.random((1200, 3)) * [1, 1, 0]
    terrain[:, 2] = 10 * rng.normal(size=1200)
    path = tmp_path / "feet.las"
    write(path, PointCloud(terrain, {"number_of_returns": np.full(1200, returns, np.uint8)}))
    result = json.loads(pdflow("info", path, "--noise", "--json").out)
    assert result["noise_is_plausible"] == plausible
    assert ("no laser scanner" in pdflow("info", path, "--noise").out) != plausible


WKT = (
    'PROJCS["ETRS89 / UTM zone 32N",GEOGCS["ETRS89",AUTHORITY["EPSG","4258"]],'
    'UNIT["metre",1,AUTHORITY["EPSG","9001"]],AUTHORITY["EPSG","25832"]]'
)


def test_survey_files_show_epsg_classes_and_density(pdflow, tmp_path):
    rng = np.random.default_rng(2)
    corner = np.array([5e5, 5e6, 100.0])
    ground = rng.random((4000, 3)) * [20, 10, 0.1] + corner
    far = rng.random((4000, 3)) * [20, 10, 0.1] + corner + [200, 0, 0]
    classes = np.repeat(np.array([2, 64], np.uint8), 4000)
    cloud = PointCloud(np.concatenate([ground, far]), {"classification": classes}, {"crs": WKT})
    write(tmp_path / "tile.las", cloud)
    result = json.loads(pdflow("info", tmp_path / "tile.las", "--json").out)
    assert result["epsg"] == "EPSG:25832"
    assert result["classes"] == {"2": 4000, "64": 4000}
    # The gap between the two squares is no ground: 8000 points on 400 square metres.
    assert result["density"] == pytest.approx(20, rel=0.2)
    lines = [line.split() for line in pdflow("info", tmp_path / "tile.las").out.splitlines()]
    assert ["epsg", "25832"] in lines
    assert ["classes", "2", "4000", "ground"] in lines
    assert ["64", "4000", "user", "defined"] in lines


def test_density_does_not_depend_on_chunks(pdflow, scan, monkeypatch):
    whole = json.loads(pdflow("info", scan, "--json").out)["density"]
    monkeypatch.setattr(survey, "POINTS_HELD", 100)
    monkeypatch.setattr("pdflow.io.CHUNK", 30)
    assert json.loads(pdflow("info", scan, "--json").out)["density"] == whole


@pytest.mark.parametrize(
    "points", [[[1, 2, 3]], [[0, 0, 0], [0, 4, 1]], [[0, 0, 0], [1e9, 1e-9, 0]]]
)
def test_clouds_without_ground_have_no_density_or_a_finite_one(pdflow, tmp_path, points):
    write(tmp_path / "few.npy", PointCloud(points))
    result = json.loads(pdflow("info", tmp_path / "few.npy", "--json").out)
    assert result["density"] is None or result["density"] > 0


@pytest.mark.parametrize("far", [1e30, 1e160, 1e300])
def test_density_of_an_absurd_strip(pdflow, tmp_path, far):
    """A crafted scale makes one axis so long that the number of a cell is no integer."""
    points = np.random.default_rng(0).random((9, 3)) * [far, 1e-9, 1]
    write(tmp_path / "strip.npy", PointCloud(points))
    done = pdflow("info", tmp_path / "strip.npy", "--json")
    assert done.code in (0, 2), done.err
    if done.code == 0:
        density = json.loads(done.out)["density"]
        assert density is None or density >= 0
