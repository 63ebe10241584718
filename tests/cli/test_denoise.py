"""`pdflow denoise`: files in, files out, and a report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pdflow
from pdflow.cli.main import main


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(1500, 3))
    points = points / np.linalg.norm(points, axis=1, keepdims=True)
    points += 0.05 * rng.normal(size=points.shape)
    colours = rng.integers(0, 256, size=(1500, 3), dtype=np.uint8)
    path = tmp_path / "noisy.ply"
    pdflow.write(path, pdflow.PointCloud(points, {"colors": colours}))
    return path


def _off_sphere(path: Path) -> float:
    radii = np.linalg.norm(pdflow.read(path).points, axis=1)
    return float(np.sqrt(np.mean((radii - 1) ** 2)))


def test_a_file_becomes_clean_and_keeps_its_attributes(
    noisy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "clean.laz"
    assert main(["denoise", str(noisy), "-o", str(out)]) == 0
    assert _off_sphere(out) < 0.6 * _off_sphere(noisy)
    before, after = pdflow.read(noisy), pdflow.read(out)
    assert np.array_equal(before.attributes["colors"], after.attributes["colors"])
    said = capsys.readouterr().out
    for word in ("1500 points", "noise", "passes", "moved by", "took"):
        assert word in said


def test_a_file_without_noise_says_so_and_keeps_its_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0), [0.0]), -1).reshape(-1, 3)
    given, out = tmp_path / "grid.ply", tmp_path / "out.ply"
    pdflow.write(given, pdflow.PointCloud(grid))
    assert main(["denoise", str(given), "-o", str(out)]) == 0
    assert np.array_equal(pdflow.read(out).points, grid)
    assert "hardly any noise" in capsys.readouterr().out


def test_json_reports_everything(
    noisy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["denoise", str(noisy), "-o", str(tmp_path / "c.ply"), "--json", "--iterations", "2"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["points"] == report["points_out"] == 1500
    assert report["iterations"] == 2
    assert 0 < report["noise_after"] < report["noise_before"]
    assert 0 < report["mean_displacement"] < report["max_displacement"]


def test_some_classes_move_and_the_report_says_why_others_do_not(
    noisy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud = pdflow.read(noisy)
    classes = np.where(np.arange(1500) < 400, 2, 5).astype(np.uint8)
    source, result = tmp_path / "in.ply", tmp_path / "out.ply"
    pdflow.write(source, pdflow.PointCloud(cloud.points, {"classification": classes}))
    options = ["--classes", "2,6", "--where", "z > 0", "--iterations", "1"]
    assert main(["denoise", str(source), str(result), *options]) == 0
    moved = (pdflow.read(result).points != pdflow.read(source).points).any(axis=1)
    assert moved[:400][cloud.points[:400, 2] > 0].all()
    assert not moved[400:].any()
    said = capsys.readouterr().out
    assert f"held back   {1500 - np.count_nonzero(moved)} were not selected" in said
    assert "after where points may move (estimated" in said


def test_several_files_go_into_a_folder(noisy: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.xyz"
    pdflow.write(other, pdflow.PointCloud(pdflow.read(noisy).points[:200]))
    out = f"{tmp_path / 'out'}/"
    assert main(["denoise", str(noisy), str(other), "-o", out]) == 0
    assert len(pdflow.read(tmp_path / "out" / "noisy.ply")) == 1500
    assert len(pdflow.read(tmp_path / "out" / "other.xyz")) == 200


def test_options_reach_the_denoiser(noisy: Path, tmp_path: Path) -> None:
    out = tmp_path / "clean.ply"
    words = ["denoise", str(noisy), "-o", str(out), "--mode", "resample", "--points", "700"]
    assert main([*words, "--displacement", "--outliers", "mark"]) == 0
    cloud = pdflow.read(out)
    assert len(cloud) == 700
    assert {"colors", "displacement", "outlier"} <= set(cloud.attributes)


@pytest.mark.parametrize(
    "extra",
    [
        ["--mode", "blur"],
        ["--iterations", "some"],
        ["--iterations", "0"],
        ["--model", "no-such-model"],
        ["--outliers", "hide"],
        ["--points", "10"],
        ["--overlap", "0.1"],
        ["--device", "abacus"],
    ],
)
def test_bad_options_are_one_line_and_write_nothing(
    noisy: Path, tmp_path: Path, extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "clean.ply"
    assert main(["denoise", str(noisy), "-o", str(out), *extra]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error:")
    assert error.count("\n") == 1
    assert not out.exists()


def test_errors_name_the_file_that_caused_them(
    noisy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = tmp_path / "few.ply"
    pdflow.write(few, pdflow.PointCloud(pdflow.read(noisy).points[:5]))
    assert main(["denoise", str(noisy), str(few), "-o", f"{tmp_path}/out/"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {few}: ")


def test_an_empty_output_does_not_mean_this_directory(
    noisy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(noisy.parent)
    before = noisy.read_bytes()
    assert main(["denoise", noisy.name, "-o", ""]) == 2
    assert "empty" in capsys.readouterr().err
    assert noisy.read_bytes() == before


def test_a_missing_folder_is_refused_before_any_work(
    pdflow, noisy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("pdflow.weights.load_model")
    outcome = pdflow("denoise", noisy, "-o", tmp_path / "none" / "clean.ply")
    assert outcome.code == 2
    assert "does not exist" in outcome.err
    outcome = pdflow("denoise", noisy, "-o", f"{noisy}/sub/")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1


def test_a_protected_folder_is_refused_before_any_work(
    pdflow, noisy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("pdflow.weights.load_model")
    monkeypatch.setattr("pdflow.cli.files.os.access", lambda *_: False)
    outcome = pdflow("denoise", noisy, "-o", f"{tmp_path}/new/deep/")
    assert outcome.code == 2
    assert "write-protected" in outcome.err


def test_stopping_leaves_no_file(
    noisy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pdflow.backends.compiled.backend.CompiledBackend.run", interrupted)
    before = set(tmp_path.iterdir())
    assert main(["denoise", str(noisy), "-o", str(tmp_path / "clean.ply")]) == 130
    assert set(tmp_path.iterdir()) == before


def test_the_output_may_come_last(noisy: Path, tmp_path: Path) -> None:
    assert main(["denoise", str(noisy), str(tmp_path / "clean.ply")]) == 0
    assert len(pdflow.read(tmp_path / "clean.ply")) == 1500


def test_a_missing_output_is_named(noisy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["denoise", str(noisy)]) == 2
    assert "no output" in capsys.readouterr().err


def folder_of(noisy: Path, folder: Path) -> Path:
    """A folder with two clouds, one broken file between them, and a text that is no cloud."""
    folder.mkdir()
    points = pdflow.read(noisy).points[:300]
    for name in ("a.ply", "c.ply"):
        pdflow.write(folder / name, pdflow.PointCloud(points))
    (folder / "b.ply").write_text("ply\nbroken")
    (folder / "readme.md").write_text("no cloud")
    return folder


def test_a_folder_goes_on_after_a_bad_file(
    noisy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(noisy, tmp_path / "in")
    assert main(["denoise", str(folder), "-o", f"{tmp_path}/out/"]) == 2
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == ["a.ply", "c.ply"]
    said = capsys.readouterr()
    assert "[1 of 3]" in said.out
    assert "[3 of 3]" in said.out
    errors = said.err.strip().splitlines()
    assert "b.ply" in errors[0]
    assert errors[-1].startswith("error: 1 of 3 files failed")


def test_what_is_there_can_be_skipped(
    noisy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(noisy, tmp_path / "in")
    (folder / "b.ply").unlink()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.ply").write_text("mine")
    words = ["denoise", str(folder), "-o", str(tmp_path / "out"), "--skip-existing", "--json"]
    assert main(words) == 0
    assert (tmp_path / "out" / "a.ply").read_text() == "mine"
    assert len(pdflow.read(tmp_path / "out" / "c.ply")) == 300
    said = capsys.readouterr()
    assert "1 of 2 outputs exist" in said.err
    assert json.loads(said.out)["points"] == 300
    assert main(words) == 0


def test_an_input_is_only_overwritten_on_request(
    noisy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = noisy.read_bytes()
    for output in (noisy, noisy.parent / "." / noisy.name, noisy.parent):
        assert main(["denoise", str(noisy), "-o", str(output)]) == 2
        assert "--overwrite" in capsys.readouterr().err
    assert noisy.read_bytes() == before
    assert main(["denoise", str(noisy), "-o", str(noisy), "--overwrite"]) == 0
    assert noisy.read_bytes() != before


def test_a_las_file_says_how_it_was_made_and_keeps_its_header(noisy: Path, tmp_path: Path) -> None:
    kept = {"generating_software": "TerraScan", "file_source_id": 7, "system_identifier": "ALS"}
    metadata = {"las": {"version": "1.2", "point_format": 0, **kept, "scales": [0.001] * 3}}
    points = pdflow.read(noisy).points
    pdflow.write(tmp_path / "in.las", pdflow.PointCloud(points, {}, metadata))
    words = ["denoise", str(tmp_path / "in.las"), str(tmp_path / "out.las")]
    assert main([*words, "--iterations", "1", "--seed", "3"]) == 0
    before, after = (pdflow.read(tmp_path / f"{name}.las").metadata for name in ("in", "out"))
    line = f"denoised by pdflow {pdflow.__version__} (model=pdflow, iterations=1, seed=3)"
    assert after["comments"] == [f"{line}; before by TerraScan"]
    assert after["las"].pop("generating_software") == f"pdflow {pdflow.__version__}"
    before["las"].pop("generating_software")
    assert after["las"] == before["las"]


def test_ply_gets_a_comment_and_text_stays_plain(noisy: Path, tmp_path: Path) -> None:
    assert main(["denoise", str(noisy), str(tmp_path / "out.ply"), "--iterations", "1"]) == 0
    header = (tmp_path / "out.ply").read_bytes().partition(b"end_header")[0].decode()
    assert f"comment denoised by pdflow {pdflow.__version__} (model=pdflow, iterations=1)" in header
    few = pdflow.PointCloud(pdflow.read(noisy).points[:300])
    pdflow.write(tmp_path / "in.xyz", few)
    assert main(["denoise", str(tmp_path / "in.xyz"), str(tmp_path / "out.xyz")]) == 0
    assert "#" not in (tmp_path / "out.xyz").read_text()


def test_denoised_text_becomes_las_with_one_digit_more(noisy: Path, tmp_path: Path) -> None:
    points = pdflow.read(noisy).points[:400].round(3)
    np.savetxt(tmp_path / "in.txt", points, fmt="%.3f")
    assert main(["denoise", str(tmp_path / "in.txt"), str(tmp_path / "out.las")]) == 0
    assert pdflow.read(tmp_path / "out.las").metadata["las"]["scales"] == [1e-4] * 3


def test_a_radius_that_asks_for_very_many_patches_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    pdflow.write(tmp_path / "flat.npy", pdflow.PointCloud(rng.random((20_000, 3)) * [1, 1, 0.01]))
    words = ["denoise", str(tmp_path / "flat.npy"), str(tmp_path / "out.npy"), "--radius", "1e-4"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "Patches of radius 0.0001 hold 1 points" in error
    assert "about 20000" in error


def test_the_bar_names_the_stages(
    noisy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for name, value in {"TERM": "xterm", "FORCE_COLOR": "1", "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    assert main(["denoise", str(noisy), str(tmp_path / "out.ply"), "--iterations", "1"]) == 0
    shown = capsys.readouterr().err
    places = [shown.index(f"noisy.ply: {stage}") for stage in ("measuring noise", "pass 1 of 1")]
    assert shown.index("loading the network") < places[0] < places[1]


def _with_outlier(path: Path) -> Path:
    far = pdflow.read(path).points
    far[0] = 3.0
    marked = path.with_name("far.las")
    pdflow.write(marked, pdflow.PointCloud(far, {"classification": np.full(len(far), 2, "u1")}))
    return marked


@pytest.mark.parametrize(("words", "code"), [([], 7), (["--outlier-class", "18"], 18)])
def test_marked_outliers_are_noise_in_las(
    noisy: Path, tmp_path: Path, words: list[str], code: int
) -> None:
    out = tmp_path / "out.las"
    command = ["denoise", str(_with_outlier(noisy)), str(out), "--iterations", "1"]
    assert main([*command, "--outliers", "mark", *words]) == 0
    attributes = pdflow.read(out).attributes
    assert attributes["classification"][0] == code
    assert set(np.unique(attributes["classification"])) == {2, code}
    assert "outlier" not in attributes


def test_a_class_needs_marks(noisy: Path, tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    words = ["denoise", str(noisy), str(tmp_path / "out.las"), "--outlier-class", "7"]
    assert main(words) != 0
    assert "needs --outliers mark" in capfd.readouterr().err
