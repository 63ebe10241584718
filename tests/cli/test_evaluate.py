"""`pdflow evaluate` on files and directories: numbers, table, JSON, CSV, picture, bad input."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from pdflow import PointCloud, TriangleMesh, write, write_mesh
from pdflow.geometry.sampling import sample_mesh
from pdflow.io import read_mesh
from pdflow.metrics import measure


@pytest.fixture
def data(tmp_path: Path, box: Path) -> Path:
    """Three directories with the shapes box and tall: noisy and clean clouds, and meshes."""
    mesh = read_mesh(box)
    box.unlink()
    random = np.random.default_rng(3)
    for folder in ("pred", "clean", "mesh"):
        (tmp_path / folder).mkdir()
    for name, height in (("box", 1.0), ("tall", 3.0)):
        shape = TriangleMesh(mesh.vertices * [1, 1, height], mesh.faces)
        clean, _ = sample_mesh(shape, 400, seed=1)
        noisy = clean + 0.05 * random.standard_normal(clean.shape)
        write(tmp_path / "pred" / f"{name}.xyz", PointCloud(noisy))
        write(tmp_path / "clean" / f"{name}.ply", PointCloud(clean))
        write_mesh(tmp_path / "mesh" / f"{name}.off", shape)
    return tmp_path


def files(data: Path, name: str = "box") -> list[str | Path]:
    return [
        data / "pred" / f"{name}.xyz",
        "--clean",
        data / "clean" / f"{name}.ply",
        "--mesh",
        data / "mesh" / f"{name}.off",
    ]


def folders(data: Path) -> list[str | Path]:
    return [data / "pred", "--clean", data / "clean", "--mesh", data / "mesh"]


def everything(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_one_pair_as_json_in_plain_units(pdflow, data):
    from pdflow import read

    outcome = pdflow("evaluate", *files(data), "--json")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert list(result) == ["mean", "shapes"]
    expected = measure(
        read(data / "pred" / "box.xyz").points,
        read(data / "clean" / "box.ply").points,
        read_mesh(data / "mesh" / "box.off"),
    )
    assert result["shapes"] == {"box": pytest.approx(expected)}
    assert result["mean"] == pytest.approx(expected)
    assert list(result["mean"]) == ["cd", "hd", "p2m"]


def test_directories_are_matched_by_stem_and_averaged(pdflow, data):
    outcome = pdflow("evaluate", *folders(data), "--json", "--metrics", "p2m, cd,rms")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert list(result["shapes"]) == ["box", "tall"]
    assert list(result["mean"]) == ["p2m", "cd", "rms"]
    for key, value in result["mean"].items():
        assert value == pytest.approx(
            (result["shapes"]["box"][key] + result["shapes"]["tall"][key]) / 2
        )


def test_table_shows_scaled_values_and_says_so(pdflow, data):
    result = json.loads(pdflow("evaluate", *folders(data), "--json").out)
    outcome = pdflow("evaluate", *folders(data))
    assert outcome.code == 0, outcome.err
    for word in ("cd", "hd", "p2m", "x1e-4", "x1e-3", "box", "tall", "mean"):
        assert word in outcome.out
    assert f"{result['shapes']['tall']['cd'] * 1e4:.3f}" in outcome.out
    assert f"{result['mean']['hd'] * 1e3:.3f}" in outcome.out


def test_csv_has_plain_values_and_the_mean(pdflow, data, tmp_path):
    result = json.loads(
        pdflow("evaluate", *folders(data), "--json", "--csv", tmp_path / "t.csv").out
    )
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["shape"] for row in rows] == ["box", "tall", "mean"]
    assert float(rows[1]["p2m"]) == result["shapes"]["tall"]["p2m"]
    assert float(rows[2]["cd"]) == result["mean"]["cd"]


def test_plot_is_a_picture_and_its_range_is_printed(pdflow, data, tmp_path):
    outcome = pdflow("evaluate", *folders(data), "--plot", tmp_path / "a.png")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert "colours run from 0" in outcome.out


def test_normals_of_the_clean_cloud_are_used(pdflow, tmp_path):
    """Points in a plane whose file claims that the normals lie in it: P2S believes the file."""
    random = np.random.default_rng(0)
    plane = np.column_stack([random.uniform(-1, 1, (300, 2)), np.zeros(300)])
    sideways = np.tile([1.0, 0.0, 0.0], (300, 1))
    write(tmp_path / "pred.ply", PointCloud(plane[:5] + np.array([0, 0, 0.3])))
    values = []
    for name, attributes in (("bare", {}), ("with", {"normals": sideways})):
        write(tmp_path / f"{name}.ply", PointCloud(plane, attributes))
        outcome = pdflow(
            "evaluate", tmp_path / "pred.ply", "--clean", tmp_path / f"{name}.ply",
            "--metrics", "p2s", "--json",
        )  # fmt: skip
        values.append(json.loads(outcome.out)["mean"]["p2s"])
    assert values[0] > 0.2
    assert values[1] < 0.05


def test_all_metrics_at_once(pdflow, data):
    from pdflow.metrics import METRICS

    for name in METRICS:
        assert name in pdflow("evaluate", "--help").out
    outcome = pdflow("evaluate", *files(data), "--metrics", ",".join(METRICS), "--json")
    assert outcome.code == 0, outcome.err
    mean = json.loads(outcome.out)["mean"]
    assert len(mean) == len(METRICS) + 2 * 4
    assert all(np.isfinite(value) and value >= 0 for value in mean.values())
    assert outcome.out.count("uniformity_ball_1.2") == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--metrics", "cd,fid"], "Unknown metric 'fid'"),
        (["--metrics", ","], "No metric was named"),
        (["--plot", "x.jpg"], "ends in .png or .pdf"),
        (["--csv", "no/such/folder/t.csv"], "does not exist"),
        (["--mesh", "nowhere.off"], "nowhere.off does not exist"),
        (["--clean", "nowhere.xyz"], "nowhere.xyz does not exist"),
    ],
)
def test_bad_words_are_one_sentence(pdflow, data, words, sentence):
    before = everything(data)
    outcome = pdflow("evaluate", *files(data), *words)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert outcome.err.count("\n") == 1
    assert outcome.out == ""
    assert everything(data) == before


def test_outputs_go_neither_onto_each_other_nor_onto_inputs(pdflow, data):
    pred = data / "pred" / "box.xyz"
    before = everything(data), pred.read_bytes()
    for outputs in (
        ("--csv", data / "a.png", "--plot", data / "a.png"),
        ("--csv", pred),
        ("--csv", data / "mesh" / ".." / "pred" / "box.xyz"),
    ):
        result = pdflow("evaluate", *files(data), *outputs)
        assert result.code == 2
        assert "would overwrite another file of this run" in result.err
    assert (everything(data), pred.read_bytes()) == before


def test_a_metric_that_needs_a_mesh_says_so(pdflow, data):
    outcome = pdflow("evaluate", *files(data)[:3], "--metrics", "p2m")
    assert outcome.code == 2
    assert "p2m needs a mesh" in outcome.err


def test_missing_partners_are_named_and_nothing_is_written(pdflow, data, tmp_path):
    for folder, name in (("pred", "box.xyz"), ("clean", "tall.ply"), ("mesh", "box.off")):
        kept = (data / folder / name).read_bytes()
        (data / folder / name).unlink()
        before = everything(data)
        outcome = pdflow("evaluate", *folders(data), "--csv", tmp_path / "t.csv")
        assert outcome.code == 2
        assert "has no partner" in outcome.err
        assert Path(name).stem in outcome.err
        assert everything(data) == before
        (data / folder / name).write_bytes(kept)


def test_two_files_of_one_name_and_mixed_inputs_are_refused(pdflow, data):
    outcome = pdflow("evaluate", data / "pred", "--clean", data / "clean" / "box.ply")
    assert outcome.code == 2
    assert "directories only" in outcome.err
    (data / "pred" / "box.ply").write_bytes((data / "clean" / "box.ply").read_bytes())
    outcome = pdflow("evaluate", *folders(data))
    assert outcome.code == 2
    assert "have the same name" in outcome.err
    (data / "empty").mkdir()
    outcome = pdflow("evaluate", data / "empty", "--clean", data / "clean")
    assert outcome.code == 2
    assert "holds no clouds" in outcome.err


def test_a_directory_that_cannot_be_read_is_named(pdflow, data, monkeypatch):
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)
    outcome = pdflow("evaluate", *folders(data))
    assert outcome.code == 2
    assert "pred cannot be read (Permission denied)" in outcome.err


def test_a_failure_half_way_keeps_the_old_table(pdflow, data, tmp_path):
    """The second shape cannot be measured: the CSV of before stays, and no picture appears."""
    table = tmp_path / "t.csv"
    table.write_text("old")
    (data / "pred" / "tall.xyz").write_text("1 2 3\nfour five six\n")
    before = everything(data)
    outcome = pdflow("evaluate", *folders(data), "--csv", table, "--plot", tmp_path / "a.png")
    assert outcome.code == 2
    assert "tall.xyz" in outcome.err
    assert table.read_text() == "old"
    assert everything(data) == before


def test_meshes_without_a_surface(pdflow, data):
    for faces, sentence in (("", "no faces"), ("3 0 0 1\n", "no area")):
        count = faces.count("\n")
        (data / "mesh" / "box.off").write_text(f"OFF\n3 {count} 0\n0 0 0\n1 0 0\n0 1 0\n{faces}")
        outcome = pdflow("evaluate", *files(data))
        assert outcome.code == 2, outcome.out
        assert "box.off" in outcome.err
        assert sentence in outcome.err


def test_some_degenerate_faces_give_a_warning_and_are_measured(pdflow, data):
    mesh = read_mesh(data / "mesh" / "box.off")
    result = json.loads(pdflow("evaluate", *files(data), "--metrics", "rms", "--json").out)
    faces = np.concatenate([mesh.faces, [[0, 0, 1]]])
    write_mesh(data / "mesh" / "box.off", TriangleMesh(mesh.vertices, faces))
    outcome = pdflow("evaluate", *files(data), "--metrics", "rms", "--json")
    assert outcome.code == 0
    assert "1 of 13 faces have no area" in outcome.err
    assert json.loads(outcome.out)["mean"]["rms"] == pytest.approx(result["mean"]["rms"])


def test_nonfinite_points(pdflow, data):
    path = data / "pred" / "box.xyz"
    path.write_text(path.read_text() + "nan 0 0\n")
    outcome = pdflow("evaluate", *files(data), "--json")
    assert outcome.code == 2
    assert "--drop-nonfinite" in outcome.err
    outcome = pdflow("evaluate", *files(data), "--json", "--drop-nonfinite")
    assert outcome.code == 0
    assert "1 NaN or infinite dropped" in outcome.err


def test_emd_of_unequal_sizes_names_the_file(pdflow, data):
    path = data / "pred" / "box.xyz"
    path.write_text("\n".join(path.read_text().splitlines()[:100]) + "\n")
    outcome = pdflow("evaluate", *files(data), "--metrics", "emd")
    assert outcome.code == 2
    assert "box.xyz" in outcome.err
    assert "equal size" in outcome.err
