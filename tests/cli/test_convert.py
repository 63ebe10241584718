from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pdflow import PointCloud, read, read_mesh, write
from pdflow.cli.files import expand_inputs, plan_jobs
from pdflow.errors import PdflowError
from pdflow.io.stream import Header


@pytest.fixture
def with_nan(tmp_path):
    path = tmp_path / "holes.xyz"
    path.write_text("0 0 0\nnan 1 1\n2 2 2\n3 inf 3\n4 4 -inf\n")
    return path


def test_points_attributes_and_metadata_go_along(pdflow, scan, cloud, tmp_path):
    outcome = pdflow("convert", scan, tmp_path / "out.npz")
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out == f"{scan} -> {tmp_path / 'out.npz'}: 200 points\n"
    back = read(tmp_path / "out.npz")
    np.testing.assert_array_equal(back.points, cloud.points)
    for name, values in cloud.attributes.items():
        np.testing.assert_array_equal(back.attributes[name], values)
    assert back.metadata["comments"] == ["made by a test"]


def test_a_file_may_be_converted_onto_itself(pdflow, scan, cloud):
    assert pdflow("convert", scan, scan).code == 0
    np.testing.assert_array_equal(read(scan).points, cloud.points)


def test_the_output_may_be_named_by_option(pdflow, scan, tmp_path):
    assert pdflow("convert", scan, "-o", tmp_path / "out.xyz").code == 0
    assert len(read(tmp_path / "out.xyz")) == 200


def test_formats_may_be_named_where_suffixes_do_not_tell(pdflow, tmp_path):
    source, target = tmp_path / "points.dat", tmp_path / "points.out"
    source.write_text("1 2 3\n4 5 6\n")
    assert pdflow("convert", source, target, "--format", "xyz", "--to", "ply").code == 0
    np.testing.assert_array_equal(read(target, "ply").points, [[1, 2, 3], [4, 5, 6]])


def test_an_unknown_format_is_refused_before_work_begins(pdflow, scan, tmp_path):
    outcome = pdflow("convert", scan, tmp_path / "out.ply", "--to", "plyy")
    assert outcome.code == 2
    assert "'plyy'" in outcome.err


@pytest.mark.parametrize("expanded", [True, False], ids=["by the shell", "by us"])
@pytest.mark.parametrize("made", [True, False], ids=["existing", "made on demand"])
def test_several_inputs_go_into_a_directory(pdflow, cloud, tmp_path, expanded, made):
    names = ["a.ply", "b.ply", "c.ply"]
    for i, name in enumerate(names):
        write(tmp_path / name, cloud[i * 10 : i * 10 + 10])
    folder = tmp_path / "out"
    if made:
        folder.mkdir()
    inputs = [tmp_path / name for name in names] if expanded else [tmp_path / "*.ply"]
    outcome = pdflow("convert", *inputs, "-o", f"{folder}/", "--to", "xyz", "--json")
    assert outcome.code == 0, outcome.err
    assert sorted(p.name for p in folder.iterdir()) == ["a.xyz", "b.xyz", "c.xyz"]
    np.testing.assert_array_equal(read(folder / "b.xyz").points, cloud.points[10:20])
    assert [result["points"] for result in json.loads(outcome.out)] == [10, 10, 10]


def test_the_last_word_may_be_the_directory(pdflow, scan, tmp_path):
    (tmp_path / "out").mkdir()
    assert pdflow("convert", scan, tmp_path / "out").code == 0
    assert (tmp_path / "out" / "scan.ply").exists()


def test_several_inputs_into_one_file_are_refused(pdflow, scan, cloud, tmp_path):
    write(tmp_path / "other.ply", cloud)
    outcome = pdflow("convert", scan, tmp_path / "other.ply", tmp_path / "out.ply")
    assert outcome.code == 2
    assert "2 inputs" in outcome.err
    assert not (tmp_path / "out.ply").exists()


def test_two_inputs_are_never_written_to_one_output(pdflow, cloud, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "scan.ply", cloud)
    outcome = pdflow("convert", tmp_path / "*" / "scan.ply", "-o", f"{tmp_path}/out/")
    assert outcome.code == 2
    assert "both" in outcome.err
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_named_twice_is_converted_once(pdflow, scan, tmp_path):
    pattern = str(scan.parent / f"*{scan.suffix}")
    result = pdflow("convert", scan, pattern, scan, "-o", f"{tmp_path}/out/", "--to", "xyz")
    assert result.code == 0, result.err
    assert result.out.count(f"{scan} ->") == 1


def test_an_output_name_that_the_system_refuses_is_bad_input(pdflow, scan):
    for words in (("convert", scan, "a" * 300 + ".ply"), ("noise", scan, "-o", "a" * 300 + ".ply")):
        result = pdflow(*words)
        assert result.code == 2
        assert "cannot be written (File name too long)" in result.err


def test_standard_output_is_refused(pdflow, scan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = pdflow("convert", scan, "-o", "-", "--to", "ply")
    assert outcome.code == 2
    assert outcome.err == (
        "error: pdflow does not write to standard output: name a file instead of -.\n"
    )
    assert not Path("-").exists()


def test_one_word_is_not_enough(pdflow, scan):
    outcome = pdflow("convert", scan)
    assert outcome.code == 2
    assert "output" in outcome.err


def test_a_missing_folder_is_named(pdflow, scan, tmp_path):
    outcome = pdflow("convert", scan, tmp_path / "nowhere" / "out.ply")
    assert outcome.code == 2
    assert "nowhere" in outcome.err
    assert not (tmp_path / "nowhere").exists()


def test_what_the_target_cannot_hold_is_said_in_one_warning(pdflow, scan, tmp_path):
    outcome = pdflow("convert", scan, tmp_path / "out.npy")
    assert outcome.code == 0
    (line,) = outcome.err.splitlines()
    assert line.startswith("warning: ")
    assert "comments" in line


def test_values_decide_where_the_whole_cloud_is_known(pdflow, tmp_path):
    attributes = {"fits": np.array([2**53]), "does_not": np.array([2**53 + 1])}
    write(tmp_path / "wide.npz", PointCloud([[0, 0, 0]], attributes))
    outcome = pdflow("convert", tmp_path / "wide.npz", tmp_path / "wide.ply")
    assert outcome.code == 0
    assert "does_not" in outcome.err
    assert read(tmp_path / "wide.ply").attributes["fits"].tolist() == [2**53]


def test_integers_wider_than_any_number_of_ply(pdflow, tmp_path, monkeypatch):
    (tmp_path / "wide.csv").write_text("x,y,z,id\n1,2,3,18446744073709551615\n4,5,6,1\n")
    outcome = pdflow("convert", tmp_path / "wide.csv", tmp_path / "wide.ply")
    assert outcome.code == 0
    assert "PLY cannot hold attribute 'id' (uint64 with values beyond 2**53)" in outcome.err
    monkeypatch.setattr("pdflow.io.CHUNK", 1)
    outcome = pdflow("convert", tmp_path / "wide.csv", tmp_path / "chunks.ply")
    assert outcome.code == 2
    assert "choose one with uint64, such as las" in outcome.err
    assert not (tmp_path / "chunks.ply").exists()
    assert pdflow("convert", tmp_path / "wide.csv", tmp_path / "wide.las").code == 0
    assert read(tmp_path / "wide.las").attributes["id"].tolist() == [2**64 - 1, 1]


def test_nonfinite_points_are_refused_with_their_row(pdflow, with_nan, tmp_path):
    outcome = pdflow("convert", with_nan, tmp_path / "out.ply")
    assert outcome.code == 2
    assert "row 1" in outcome.err
    assert "--drop-nonfinite" in outcome.err


def test_rows_are_counted_from_the_start_of_the_file(pdflow, tmp_path, monkeypatch):
    monkeypatch.setattr("pdflow.io.CHUNK", 2)
    path = tmp_path / "late.npy"
    points = np.zeros((7, 3))
    points[5] = np.nan
    np.save(path, points)
    assert "row 5 " in pdflow("convert", path, tmp_path / "out.ply").err


@pytest.mark.parametrize("target", ["out.ply", "out.xyz", "out.npy", "out.npz", "out.pcd"])
def test_dropping_nonfinite_points_says_how_many(pdflow, with_nan, tmp_path, target):
    outcome = pdflow("convert", with_nan, tmp_path / target, "--drop-nonfinite")
    assert outcome.code == 0, outcome.err
    assert "2 points (3 NaN or infinite dropped)" in outcome.out
    np.testing.assert_array_equal(read(tmp_path / target).points, [[0, 0, 0], [2, 2, 2]])


def test_nothing_left_after_dropping_is_an_error(pdflow, tmp_path):
    path = tmp_path / "all.xyz"
    path.write_text("nan nan nan\ninf 0 0\n")
    outcome = pdflow("convert", path, tmp_path / "out.ply", "--drop-nonfinite")
    assert outcome.code == 2
    assert not (tmp_path / "out.ply").exists()


def test_json_says_what_was_done(pdflow, scan, tmp_path):
    outcome = pdflow("convert", scan, tmp_path / "out.xyz", "--json")
    assert json.loads(outcome.out) == {
        "file": str(scan),
        "output": str(tmp_path / "out.xyz"),
        "kind": "cloud",
        "points": 200,
        "dropped": 0,
    }


def test_ctrl_c_leaves_no_half_file(pdflow, scan, tmp_path, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pdflow.cli.files.FiniteChunks.__iter__", interrupted)
    target = tmp_path / "out.ply"
    target.write_text("old")
    assert pdflow("convert", scan, target).code == 130
    assert target.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.ply", "scan.ply"]


def test_meshes_are_converted_as_meshes(pdflow, box, tmp_path):
    outcome = pdflow("convert", box, tmp_path / "box.stl", "--json")
    assert json.loads(outcome.out)["faces"] == 12
    assert read_mesh(tmp_path / "box.stl").areas.sum() == pytest.approx(22)


def test_vertex_attributes_that_a_mesh_leaves_behind_are_named(pdflow, tmp_path):
    (tmp_path / "coloured.ply").write_text(
        "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n"
        "property float z\nproperty float quality\nelement face 1\n"
        "property list uchar int vertex_indices\nend_header\n"
        "0 0 0 7\n1 0 0 8\n0 1 0 9\n3 0 1 2\n"
    )
    outcome = pdflow("convert", tmp_path / "coloured.ply", tmp_path / "plain.obj")
    assert outcome.code == 0
    assert len(read_mesh(tmp_path / "plain.obj").faces) == 1
    (line,) = outcome.err.splitlines()
    assert line.startswith("warning: ")
    assert "quality" in line


def test_a_cloud_does_not_become_a_mesh_nor_a_mesh_a_cloud(pdflow, scan, box, tmp_path):
    write(tmp_path / "scan.xyz", PointCloud([[0, 0, 0]]))
    outcome = pdflow("convert", tmp_path / "scan.xyz", tmp_path / "out.off")
    assert outcome.code == 2
    assert "is a cloud" in outcome.err
    outcome = pdflow("convert", box, tmp_path / "out.xyz")
    assert outcome.code == 2
    assert "pdflow sample" in outcome.err


def test_large_files_are_converted_in_chunks(pdflow, cloud, tmp_path, monkeypatch):
    """The writer sees chunks, not the whole cloud."""
    from pdflow.io import ply

    write(tmp_path / "big.ply", cloud)
    sizes = []
    real = ply.open_writer

    def spying(path, header: Header):
        writer = real(path, header)
        write_chunk = writer.write
        monkeypatch.setattr(
            writer, "write", lambda chunk: (sizes.append(len(chunk)), write_chunk(chunk))
        )
        return writer

    monkeypatch.setattr(ply, "open_writer", spying)
    monkeypatch.setattr("pdflow.io.CHUNK", 64)
    assert pdflow("convert", tmp_path / "big.ply", tmp_path / "out.ply").code == 0
    assert sizes == [64, 64, 64, 8]
    np.testing.assert_array_equal(read(tmp_path / "out.ply").points, cloud.points)


def test_patterns_are_sorted_and_pass_over_directories(tmp_path):
    for name in ("b.ply", "a.ply"):
        (tmp_path / name).touch()
    (tmp_path / "c.ply").mkdir()
    assert [p.name for p in expand_inputs([str(tmp_path / "*.ply")])] == ["a.ply", "b.ply"]


def test_a_name_with_brackets_is_taken_as_it_is(tmp_path):
    (tmp_path / "scan[1].ply").touch()
    assert expand_inputs([str(tmp_path / "scan[1].ply")]) == [tmp_path / "scan[1].ply"]


def test_a_pattern_that_matches_nothing_is_an_error(tmp_path):
    with pytest.raises(PdflowError, match="matches no file"):
        expand_inputs([str(tmp_path / "*.ply")])


def test_outputs_that_differ_in_case_only_count_as_one(tmp_path):
    sources = [tmp_path / "a" / "Scan.ply", tmp_path / "b" / "scan.ply"]
    with pytest.raises(PdflowError, match="both"):
        plan_jobs(sources, f"{tmp_path}/out/")


@pytest.mark.parametrize(
    ("name", "suffix", "expected"),
    [
        ("scan.ply", None, "scan.ply"),
        ("scan.v2.ply", ".xyz", "scan.v2.xyz"),
        ("scan.copc.laz", None, "scan.laz"),
        ("scan.copc.laz", ".ply", "scan.ply"),
    ],
)
def test_results_in_a_directory_are_named_after_their_inputs(tmp_path, name, suffix, expected):
    (job,) = plan_jobs([tmp_path / name], f"{tmp_path}/out/", suffix)
    assert job.target == tmp_path / "out" / expected


def test_a_new_directory_without_a_slash_gets_a_hint(pdflow, scan, tmp_path):
    done = pdflow("convert", scan, tmp_path / "new")
    assert done.code == 2
    assert f"({tmp_path / 'new'}/)" in done.err
