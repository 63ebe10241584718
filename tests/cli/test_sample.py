from __future__ import annotations

import json

import numpy as np
import pytest

from pdflow import read


@pytest.mark.parametrize("method", ["even", "uniform"])
def test_exactly_as_many_points_as_asked_for_lie_on_the_surface(pdflow, box, tmp_path, method):
    target = tmp_path / "points.ply"
    outcome = pdflow("sample", box, "-o", target, "--points", "300", "--method", method, "--json")
    assert outcome.code == 0, outcome.err
    points = read(target).points
    assert len(points) == 300 == json.loads(outcome.out)["points"]
    size = np.array([1, 2, 3])
    on_a_side = (np.abs(points) < 1e-6) | (np.abs(points - size) < 1e-6)
    assert on_a_side.any(1).all()
    assert ((points > -1e-6) & (points < size + 1e-6)).all()


def test_the_same_seed_gives_the_same_file(pdflow, box, tmp_path):
    for name, seed in (("a.ply", "1"), ("b.ply", "1"), ("c.ply", "2")):
        words = ["sample", box, "-o", tmp_path / name, "--points", "50", "--seed", seed]
        assert pdflow(*words).code == 0
    a, b, c = ((tmp_path / f"{name}.ply").read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_several_meshes_go_into_a_directory_as_ply(pdflow, box, tmp_path):
    box.rename(tmp_path / "one.off")
    (tmp_path / "two.off").write_bytes((tmp_path / "one.off").read_bytes())
    words = ["sample", tmp_path / "*.off", "-o", f"{tmp_path}/out/", "--points", "20"]
    assert pdflow(*words).code == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["one.ply", "two.ply"]
    assert pdflow(*words, "--to", "xyz").code == 0
    assert len(read(tmp_path / "out" / "two.xyz")) == 20


def test_json_tells_the_area(pdflow, box, tmp_path):
    outcome = pdflow("sample", box, "-o", tmp_path / "p.ply", "--points", "9", "--json")
    assert json.loads(outcome.out)["area"] == pytest.approx(22)


def test_a_cloud_is_refused(pdflow, tmp_path):
    (tmp_path / "cloud.xyz").write_text("0 0 0\n")
    outcome = pdflow("sample", tmp_path / "cloud.xyz", "-o", tmp_path / "out.ply")
    assert outcome.code == 2
    assert "mesh" in outcome.err
    assert not (tmp_path / "out.ply").exists()


def test_a_mesh_without_area_is_named(pdflow, tmp_path):
    flat = tmp_path / "flat.off"
    flat.write_text("OFF\n3 1 0\n0 0 0\n1 0 0\n2 0 0\n3 0 1 2\n")
    for words in (["sample", flat], ["noise", flat, "--kind", "lidar"]):
        outcome = pdflow(*words, "-o", tmp_path / "out.ply")
        assert outcome.code == 2
        assert f"error: {flat}: " in outcome.err
    assert not (tmp_path / "out.ply").exists()
