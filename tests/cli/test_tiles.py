"""`pdflow denoise` on clouds larger than memory, and on files that touch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from pdflow.cloud import PointCloud
from pdflow.config import FlowConfig, InferenceConfig
from pdflow.io import read, write
from pdflow.model import PDFlow
from pdflow.pipeline import large
from pdflow.tiles import choose, memory
from pdflow.weights import save_model


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """The file of a small network with random weights."""
    torch.manual_seed(0)
    config = FlowConfig(edge_neighbours=(0,), augment_dims=3, hidden=8, patch_points=100)
    path = tmp_path / "small.safetensors"
    save_model(path, PDFlow(config, InferenceConfig((4.0, 4.0), centred=True)).eval(), {})
    return path


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clouds of 2000 points are large, and do not fit."""
    monkeypatch.setattr(large, "LARGE", 2000)
    monkeypatch.setattr(large, "CELL", 500)
    monkeypatch.setattr(choose, "fits_whole", lambda *_: False)
    monkeypatch.setattr(choose, "tile_points", lambda budget: 1500)


def make_strip(path: Path, first: float, last: float) -> Path:
    rng = np.random.default_rng(int(first))
    count = int(8 * (last - first))
    points = rng.random((count, 3)) * [last - first, 10, 0] + [first, 0, 0]
    points += 0.1 * rng.normal(size=points.shape)
    values = np.arange(count, dtype=np.uint16)
    write(path, PointCloud(points, {"intensity": values}))
    return path


def test_a_large_file_is_denoised_in_tiles(pdflow: Callable, tmp_path: Path, network: Path) -> None:
    source = make_strip(tmp_path / "strip.laz", 0, 400)
    words = ["denoise", source, "-o", tmp_path / "clean.laz", "--model", network]
    done = pdflow(*words, "--json", "--iterations", "1", "--memory", "1GiB")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["points"] == report["points_out"] == 3200
    steps = [json.loads(line) for line in done.err.splitlines()]
    assert [step["stage"] for step in steps if step["tiles"] == step["of"]] == [
        "outliers", "pass-1", "limit", "write",
    ]  # fmt: skip
    assert steps[-1]["share"] == pytest.approx(1)
    before, after = read(source), read(tmp_path / "clean.laz")
    assert np.array_equal(after.attributes["intensity"], before.attributes["intensity"])
    assert not np.array_equal(after.points, before.points)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "clean.laz", "small.safetensors", "strip.laz",
    ]  # fmt: skip


def test_a_figure_of_a_cloud_in_tiles_shows_a_sample(
    pdflow: Callable, tmp_path: Path, network: Path
) -> None:
    source, figure = make_strip(tmp_path / "strip.ply", 0, 300), tmp_path / "figure.png"
    words = ["denoise", source, "-o", tmp_path / "clean.ply", "--model", network]
    words += ["--iterations", "1", "--memory", "1GiB", "--plot", figure]
    done = pdflow(*words, "--outliers", "remove")
    assert done.code == 2
    assert "mark outliers" in done.err
    done = pdflow(*words, "--uncertainty")
    assert done.code == 0, done.err
    assert "displacement" in done.err
    assert figure.stat().st_size > 10_000
    assert "uncertainty" in read(tmp_path / "clean.ply").attributes


@pytest.mark.parametrize(("source", "target"), [("a.npz", "b.ply"), ("a.ply", "b.npz")])
def test_formats_that_are_not_read_in_parts_must_fit(
    pdflow: Callable, tmp_path: Path, network: Path, source: str, target: str
) -> None:
    make_strip(tmp_path / source, 0, 300)
    words = ["denoise", tmp_path / source, "-o", tmp_path / target, "--model", network]
    done = pdflow(*words, "--memory", "600.1MiB")
    assert done.code == 2
    assert "read and written at once" in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / target).exists()


def test_a_stopped_run_goes_on_in_its_own_tiles_when_more_memory_is_free(
    pdflow: Callable, tmp_path: Path, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_strip(tmp_path / "strip.ply", 0, 400)
    words = ["denoise", source, "-o", tmp_path / "clean.ply", "--model", network]
    with monkeypatch.context() as patch:

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr("pdflow.tiles.run.write_output", stop)
        assert pdflow(*words, "--iterations", "1").code == 130
    monkeypatch.setattr(choose, "fits_whole", lambda *_: True)
    monkeypatch.setattr(choose, "tile_points", lambda budget: 3000)
    done = pdflow(*words, "--iterations", "1", "--json")
    assert done.code == 0, done.err
    assert {json.loads(line)["stage"] for line in done.err.splitlines()} == {"write"}
    assert not (tmp_path / "clean.ply.pdflow-tiles").exists()


def test_files_that_touch_are_one_cloud(pdflow: Callable, tmp_path: Path, network: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    make_strip(folder / "a.ply", 0, 200)
    make_strip(folder / "b.ply", 200, 400)
    whole = PointCloud.concatenate([read(folder / "a.ply"), read(folder / "b.ply")])
    write(tmp_path / "whole.ply", whole)
    options = ["--model", network, "--iterations", "1", "--json"]
    assert pdflow("denoise", tmp_path / "whole.ply", "-o", tmp_path / "w.ply", *options).code == 0
    done = pdflow("denoise", folder, "-o", f"{tmp_path}/one/", *options)
    assert done.code == 0, done.err
    assert [Path(result["output"]).name for result in json.loads(done.out)] == ["a.ply", "b.ply"]
    parts = [read(tmp_path / "one" / name).points for name in ("a.ply", "b.ply")]
    assert np.array_equal(np.concatenate(parts), read(tmp_path / "w.ply").points)
    assert pdflow("denoise", folder, "-o", f"{tmp_path}/two/", "--separate", *options).code == 0
    apart = read(tmp_path / "two" / "a.ply").points
    near = parts[0][:, 0] > 195
    assert not np.array_equal(apart[near], parts[0][near])


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(
    pdflow: Callable, tmp_path: Path, network: Path
) -> None:
    source = make_strip(tmp_path / "strip.ply", 0, 400)
    words = ["denoise", source, "-o", tmp_path / "clean.ply", "--model", network, "--dry-run"]
    done = pdflow(*words)
    assert done.code == 0, done.err
    for word in ("3200 points", "tiles of at most 1500", "memory", "disk", "time"):
        assert word in done.out
    facts = json.loads(pdflow(*words, "--json").out)
    assert facts["points"] == 3200
    assert facts["seconds"] > 0
    assert not (tmp_path / "clean.ply").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mode", "resample", "--workers", "0"], "workers"),
        (["--memory", "much"], "4GiB"),
        (["--memory", "1MB"], "at least"),
        (["--workers", "2", "--cluster", "tcp://nowhere:1"], "exclude"),
    ],
)
def test_bad_options_are_one_sentence(
    pdflow: Callable,
    tmp_path: Path,
    network: Path,
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choose, "tile_points", memory.tile_points)
    source = make_strip(tmp_path / "strip.ply", 0, 400)
    done = pdflow("denoise", source, "-o", tmp_path / "out.ply", "--model", network, *words)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "out.ply").exists()
