"""A run over tiles gives what the whole cloud gives, and loses nothing of the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.io import read, write
from pdflow.model import PDFlow
from pdflow.pipeline import large
from pdflow.pipeline.denoise import Denoiser
from pdflow.tiles.run import TileRun
from pdflow.tiles.state import state_folder

MakeRun = Callable[..., TileRun]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"outliers": "mark", "displacement": True, "iterations": 1},
        {"outliers": "remove", "seed": 3, "iterations": 1},
        {"partitions": 2, "iterations": 1, "max_move": 0.05, "where": "level > 0.1"},
        {"noise": "level", "uncertainty": True, "where": "level > 0.1"},
        {"noise": 0.2, "iterations": "auto"},
    ],
    ids=str,
)
def test_tiles_equal_the_whole(
    tmp_path: Path,
    strip: PointCloud,
    tile_run: MakeRun,
    small_model: PDFlow,
    options: dict[str, Any],
) -> None:
    level = np.linspace(0.05, 0.2, len(strip))
    cloud = PointCloud(strip.points, {**strip.attributes, "level": level})
    write(tmp_path / "in.ply", cloud)
    whole = Denoiser(small_model, **{"iterations": 2, "partitions": 1, **options})(cloud)
    [(totals, report)] = tile_run([tmp_path / "in.ply"], [tmp_path / "out.ply"], **options)()
    tiled = read(tmp_path / "out.ply")
    assert not state_folder([tmp_path / "out.ply"]).exists()
    assert list(tiled.attributes) == list(whole.cloud.attributes)
    for name, values in whole.cloud.attributes.items():
        if name == "uncertainty":
            assert np.array_equal(np.isnan(tiled.attributes[name]), np.isnan(values))
            same = np.isclose(tiled.attributes[name], values, rtol=1e-3, equal_nan=True)
            assert np.mean(same) > 0.999
        elif name != "displacement":
            assert np.array_equal(tiled.attributes[name], values)
    gaps = np.linalg.norm(tiled.points - whole.cloud.points, axis=1)
    assert np.mean(gaps < 1e-3) > 0.999
    assert totals.dropped == 0
    assert report.points == len(cloud)
    assert report.points_out == whole.report.points_out
    assert report.outliers == whole.report.outliers
    assert report.iterations == whole.report.iterations
    assert report.held_back == whole.report.held_back
    assert report.noise_kind == whole.report.noise_kind
    assert report.noise_before == pytest.approx(whole.report.noise_before)
    assert report.mean_displacement == pytest.approx(whole.report.mean_displacement, rel=1e-3)


def test_two_scales_in_tiles_equal_the_whole(
    tmp_path: Path, strip: PointCloud, tile_run: MakeRun, small_model: PDFlow
) -> None:
    inference = replace(small_model.inference, scale_thresholds=(0.001, 0.002, 5.0))
    model = PDFlow(small_model.config, inference).eval()
    model.load_state_dict(small_model.state_dict())
    write(tmp_path / "in.ply", strip)
    auto: dict[str, Any] = {"iterations": "auto", "partitions": "auto", "noise": 0.2}
    whole = Denoiser(model, **auto)(strip)
    run = replace(tile_run([tmp_path / "in.ply"], [tmp_path / "out.ply"], **auto), model=model)
    [(_, report)] = run()
    gaps = np.linalg.norm(read(tmp_path / "out.ply").points - whole.cloud.points, axis=1)
    assert np.mean(gaps < 1e-3) > 0.999
    assert report.coarse_partitions == whole.report.coarse_partitions == 2


def test_a_sample_decides_for_tiles_as_for_the_whole(
    tmp_path: Path,
    strip: PointCloud,
    tile_run: MakeRun,
    small_model: PDFlow,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large, "SAMPLE", 3000)
    write(tmp_path / "in.ply", strip)
    whole = Denoiser(small_model, iterations=1, partitions=1)(strip)
    [(_, report)] = tile_run([tmp_path / "in.ply"], [tmp_path / "out.ply"], iterations=1)()
    gaps = np.linalg.norm(read(tmp_path / "out.ply").points - whole.cloud.points, axis=1)
    assert np.mean(gaps < 1e-3) > 0.999
    assert report.noise_before == pytest.approx(whole.report.noise_before)
    assert report.noise_after == pytest.approx(whole.report.noise_after)


def test_marked_outliers_are_noise_in_las(
    tmp_path: Path, strip: PointCloud, tile_run: MakeRun
) -> None:
    write(tmp_path / "in.las", strip)
    options = {"outliers": "mark", "iterations": 1}
    [(_, report)] = tile_run([tmp_path / "in.las"], [tmp_path / "out.las"], **options)()
    attributes = read(tmp_path / "out.las").attributes
    assert "outlier" not in attributes
    assert np.count_nonzero(attributes["classification"] == 7) == report.outliers > 0


def test_tiles_without_noise_keep_their_bits(tmp_path: Path, tile_run: MakeRun) -> None:
    grid = np.stack(np.meshgrid(np.arange(200.0), np.arange(20.0)), -1).reshape(-1, 2)
    flat = PointCloud(np.c_[grid, np.full(len(grid), 5.0)] + np.array([4e5, 5e6, 100]))
    write(tmp_path / "in.ply", flat)
    asked = {"iterations": "auto", "partitions": "auto"}
    [(_, report)] = tile_run([tmp_path / "in.ply"], [tmp_path / "out.ply"], **asked)()
    assert np.array_equal(read(tmp_path / "out.ply").points, flat.points)
    assert report.iterations == 0
    assert report.noise_after == report.noise_before
    assert not any(report.held_back.values())
