from __future__ import annotations

import json

import numpy as np
import pytest

from pdflow import read, write
from pdflow.noise import KINDS


def test_points_move_and_everything_else_stays(pdflow, scan, cloud, tmp_path):
    outcome = pdflow("noise", scan, "-o", tmp_path / "noisy.ply", "--level", "0.05")
    assert outcome.code == 0, outcome.err
    noisy = read(tmp_path / "noisy.ply")
    assert not (noisy.points == cloud.points).all(1).any()
    for name, values in cloud.attributes.items():
        np.testing.assert_array_equal(noisy.attributes[name], values)
    assert noisy.metadata["comments"] == ["made by a test"]


def test_the_same_seed_gives_the_same_file(pdflow, scan, tmp_path):
    for name, seed in (("a.ply", "1"), ("b.ply", "1"), ("c.ply", "2")):
        assert pdflow("noise", scan, "-o", tmp_path / name, "--seed", seed).code == 0
    a, b, c = ((tmp_path / f"{name}.ply").read_bytes() for name in "abc")
    assert a == b
    assert a != c


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_asked_for_and_stands_in_the_help(pdflow, scan, tmp_path, kind):
    outcome = pdflow("noise", scan, "-o", tmp_path / "noisy.ply", "--kind", kind, "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["rms_displacement"] > 0
    assert kind in pdflow("noise", "--help").out


def test_level_zero_moves_nothing(pdflow, scan, cloud, tmp_path):
    pdflow("noise", scan, "-o", tmp_path / "same.ply", "--level", "0")
    np.testing.assert_array_equal(read(tmp_path / "same.ply").points, cloud.points)


def test_displacement_is_reported(pdflow, scan, cloud, tmp_path):
    outcome = pdflow("noise", scan, "-o", tmp_path / "noisy.ply", "--json")
    result = json.loads(outcome.out)
    moves = read(tmp_path / "noisy.ply").points - cloud.points
    rms = np.sqrt(np.square(moves).sum(1).mean())
    assert result["rms_displacement"] == pytest.approx(rms, rel=1e-6)
    assert (result["kind"], result["level"], result["seed"], result["points"]) == (
        "gaussian",
        0.02,
        0,
        200,
    )


def test_an_unknown_kind_is_refused_with_the_choices(pdflow, scan, tmp_path):
    outcome = pdflow("noise", scan, "-o", tmp_path / "noisy.ply", "--kind", "pink")
    assert outcome.code == 2
    assert "gaussian" in outcome.err
    assert "lidar" in outcome.err


@pytest.mark.parametrize("level", ["nan", "inf"])
def test_a_level_that_is_no_number_is_refused(pdflow, scan, tmp_path, level):
    assert pdflow("noise", scan, "-o", tmp_path / "noisy.ply", "--level", level).code == 2
    assert not (tmp_path / "noisy.ply").exists()


def test_several_clouds_go_into_a_directory_in_their_own_format(pdflow, scan, cloud, tmp_path):
    write(tmp_path / "other.xyz", cloud)
    assert pdflow("noise", scan, tmp_path / "other.xyz", "-o", f"{tmp_path}/noisy/").code == 0
    assert sorted(p.name for p in (tmp_path / "noisy").iterdir()) == ["other.xyz", "scan.ply"]


def test_nonfinite_points_are_dropped_on_demand(pdflow, tmp_path):
    (tmp_path / "holes.xyz").write_text("0 0 0\nnan 0 0\n1 0 0\n")
    words = ["noise", tmp_path / "holes.xyz", "-o", tmp_path / "noisy.xyz"]
    assert pdflow(*words).code == 2
    outcome = pdflow(*words, "--drop-nonfinite")
    assert "(1 NaN or infinite dropped)" in outcome.out
    assert len(read(tmp_path / "noisy.xyz")) == 2


def test_lidar_scans_a_mesh(pdflow, box, tmp_path):
    words = ["noise", box, "-o", f"{tmp_path}/scans/", "--kind", "lidar", "--level", "0.01"]
    outcome = pdflow(*words, "--json")
    assert outcome.code == 0, outcome.err
    scan = read(tmp_path / "scans" / "box.ply")
    assert json.loads(outcome.out)["points"] == len(scan) > 0
    assert pdflow(*words).out.endswith("seen by the scanner\n")


def test_lidar_wants_a_mesh(pdflow, scan, tmp_path):
    write(tmp_path / "cloud.xyz", read(scan)[:5])
    outcome = pdflow("noise", tmp_path / "cloud.xyz", "-o", tmp_path / "out.ply", "--kind", "lidar")
    assert outcome.code == 2
    assert "mesh" in outcome.err


def test_a_cloud_without_extent_is_named(pdflow, tmp_path):
    (tmp_path / "one.xyz").write_text("1 2 3\n")
    outcome = pdflow("noise", tmp_path / "one.xyz", "-o", tmp_path / "noisy.xyz")
    assert outcome.code == 2
    assert f"{tmp_path / 'one.xyz'}: The cloud has no extent" in outcome.err
    assert not (tmp_path / "noisy.xyz").exists()
