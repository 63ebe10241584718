"""`--plot` of denoise, evaluate and noise."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from pdflow import PointCloud, TriangleMesh, write, write_mesh

pytest.importorskip("PIL", reason="no extra plot")


@pytest.fixture
def plane(tmp_path):
    """A noisy plane of 400 points."""
    random = np.random.default_rng(0)
    path = tmp_path / "plane.ply"
    noise = 0.01 * random.normal(size=(400, 3))
    write(path, PointCloud(random.random((400, 3)) * [1, 1, 0] + noise))
    return path


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_noise_draws_before_and_after(pdflow, plane, tmp_path, suffix):
    picture = tmp_path / f"plot.{suffix}"
    outcome = pdflow("noise", plane, "-o", tmp_path / "noisy.ply", "--plot", picture)
    assert outcome.code == 0
    assert f"{picture}: before, after and displacement" in outcome.err
    assert picture.read_bytes()[:4] == {"png": b"\x89PNG", "pdf": b"%PDF"}[suffix]


def test_a_scan_is_drawn_beside_its_mesh(pdflow, tmp_path):
    mesh = TriangleMesh(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]),
                        [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])  # fmt: skip
    write_mesh(tmp_path / "mesh.off", mesh)
    words = ("noise", tmp_path / "mesh.off", "-o", tmp_path / "scan.ply", "--kind", "lidar")
    outcome = pdflow(*words, "--plot", tmp_path / "plot.png")
    assert (outcome.code, "distance to the mesh" in outcome.err) == (0, True)
    assert (tmp_path / "plot.png").exists()


@pytest.mark.parametrize(
    ("mode", "name"), [("points", "displacement"), ("resample", "distance to the input")]
)
def test_denoise_draws_what_it_did(pdflow, plane, tmp_path, mode, name):
    words = ("--mode", mode, "--iterations", "1", "--json", "--plot", tmp_path / "plot.png")
    outcome = pdflow("denoise", plane, tmp_path / "clean.ply", *words)
    assert (outcome.code, name in outcome.err) == (0, True)
    assert outcome.out.startswith("{")
    assert (tmp_path / "plot.png").exists()


def test_evaluate_draws_one_cloud_beside_its_truth(pdflow, plane, tmp_path):
    outcome = pdflow("evaluate", plane, "--clean", plane, "--plot", tmp_path / "plot.pdf")
    assert outcome.code == 0
    assert (tmp_path / "plot.pdf").read_bytes()[:4] == b"%PDF"


@pytest.mark.parametrize(
    ("plot", "sentence"),
    [
        ("plot.svg", "ends in .png or .pdf"),
        ("no/plot.png", "does not exist"),
        ("clean.png", "overwrite"),
    ],
)
def test_a_plot_that_cannot_be_written_is_refused_before_the_work(
    pdflow, plane, tmp_path, plot, sentence
):
    words = ("-o", tmp_path / "clean.png", "--to", "ply", "--plot", tmp_path / plot)
    for command in ("denoise", "noise"):
        outcome = pdflow(command, plane, *words)
        assert (outcome.code, sentence in outcome.err) == (2, True), outcome.err
        assert outcome.err.count("\n") == 1
        assert not (tmp_path / "clean.png").exists()


def test_several_inputs_have_no_plot(pdflow, plane, tmp_path):
    other = tmp_path / "other.ply"
    other.write_bytes(plane.read_bytes())
    outcome = pdflow("noise", plane, other, "-o", f"{tmp_path}/out/", "--plot", tmp_path / "a.png")
    assert (outcome.code, "one cloud, not 2" in outcome.err) == (2, True)


def test_without_the_extra_it_is_named(pdflow, plane, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    outcome = pdflow("noise", plane, "-o", tmp_path / "n.ply", "--plot", tmp_path / "a.png")
    assert (outcome.code, "[plot]" in outcome.err) == (2, True)
