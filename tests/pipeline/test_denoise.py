"""The Denoiser: equivariant, deterministic, complete, and gentle with odd clouds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.errors import LossWarning, PdflowError
from pdflow.model import PDFlow
from pdflow.pipeline.api import denoise
from pdflow.pipeline.denoise import Denoiser

Sphere = Callable[..., np.ndarray]


def test_noise_is_removed_and_rows_are_kept(
    model: PDFlow, sphere: Sphere, off_sphere: Callable[[np.ndarray], float]
) -> None:
    noisy = sphere(3000)
    colours = np.arange(9000, dtype=np.uint8).reshape(3000, 3)
    cloud = PointCloud(noisy, {"colors": colours}, {"crs": "EPSG:25832"})
    done = Denoiser(model)(cloud)
    assert len(done.cloud) == 3000
    assert np.array_equal(done.cloud.attributes["colors"], colours)
    assert done.cloud.metadata == {"crs": "EPSG:25832"}
    assert off_sphere(done.cloud.points) < 0.5 * off_sphere(noisy)
    moves = np.linalg.norm(done.cloud.points - noisy, axis=1)
    assert done.report.mean_displacement == pytest.approx(moves.mean())
    assert done.report.max_displacement == pytest.approx(moves.max())
    assert moves.max() < 0.4
    assert done.report.noise_before == pytest.approx(0.05, rel=0.3)
    assert done.report.noise_after < 0.5 * done.report.noise_before


def test_it_moves_and_scales_with_the_cloud(model: PDFlow, sphere: Sphere) -> None:
    noisy = sphere(2000)
    clean = denoise(noisy, model=model)
    shift = np.array([5e6, -4e5, 300.0])
    far = denoise(250.0 * noisy + shift, model=model)
    assert np.abs((far - shift) / 250.0 - clean).max() < 1e-4


def test_utm_coordinates_keep_their_digits(
    model: PDFlow, sphere: Sphere, off_sphere: Callable[[np.ndarray], float]
) -> None:
    noisy = sphere(1500) + np.array([5e6, 4e5, 100.0])
    clean = denoise(noisy, model=model)
    assert off_sphere(clean - np.array([5e6, 4e5, 100.0])) < 0.6 * 0.05


def test_a_second_run_gives_the_same_bits(model: PDFlow, sphere: Sphere) -> None:
    noisy = sphere(2500)
    assert np.array_equal(denoise(noisy, model=model), denoise(noisy, model=model))


@pytest.mark.parametrize("count", [64, 65, 200, 1023, 1024, 1025, 2000])
def test_small_clouds_work(model: PDFlow, count: int, sphere: Sphere) -> None:
    noisy = sphere(count)
    clean = denoise(noisy, model=model)
    assert np.isfinite(clean).all()
    assert np.abs(clean - noisy).max() < 0.5


@pytest.mark.parametrize("mode", ["points", "resample"])
def test_a_cloud_without_points_is_refused(mode: str) -> None:
    with pytest.raises(PdflowError, match="no points"):
        denoise(np.empty((0, 3)), mode=mode)


def test_copies_of_a_point_move_together(model: PDFlow, sphere: Sphere) -> None:
    noisy = sphere(600)
    clean = denoise(
        np.concatenate([noisy, noisy[:300], noisy[:1].repeat(1500, axis=0)]), model=model
    )
    assert np.array_equal(clean[600:900], clean[:300])
    assert (clean[900:] == clean[0]).all()


@pytest.mark.parametrize("flat", ["line", "plane"])
def test_flat_clouds_stay_flat(model: PDFlow, flat: str) -> None:
    points = np.random.default_rng(0).uniform(size=(800, 3))
    points[:, 2] = 0
    if flat == "line":
        points[:, 1] = 0
    clean = denoise(points, model=model)
    assert np.isfinite(clean).all()
    assert np.abs(clean[:, 2]).max() < 0.05


def test_unevenly_measured_points_stay_in_place_along_the_surface(model: PDFlow) -> None:
    rng = np.random.default_rng(0)
    noisy = np.column_stack([rng.random((6000, 2)), 0.003 * rng.normal(size=6000)])
    points = Denoiser(model)(PointCloud(noisy)).cloud.points
    inner = (np.abs(noisy[:, :2] - 0.5) < 0.45).all(axis=1)
    assert np.sqrt(np.mean((points - noisy)[inner, :2] ** 2)) < 0.001
    assert np.std(points[inner, 2]) < 0.5 * np.std(noisy[:, 2])


def test_displacement_is_stored_where_asked_for(model: PDFlow, sphere: Sphere) -> None:
    noisy = sphere(800)
    done = Denoiser(model, displacement=True)(PointCloud(noisy))
    moved = noisy + done.cloud.attributes["displacement"]
    assert moved == pytest.approx(done.cloud.points, abs=1e-12)


def test_replacing_an_attribute_gives_a_warning(model: PDFlow, sphere: Sphere) -> None:
    cloud = PointCloud(sphere(100), {"outlier": np.arange(100), "displacement": np.arange(100)})
    with pytest.warns(LossWarning) as warned:
        done = Denoiser(model, displacement=True, outliers="mark")(cloud)
    assert sorted(str(w.message).split("'")[1] for w in warned) == ["displacement", "outlier"]
    assert done.cloud.attributes["outlier"].max() <= 1
    assert np.array_equal(denoise(cloud, model=model).attributes["outlier"], np.arange(100))


def test_balls_can_grow_patches(
    model: PDFlow, sphere: Sphere, off_sphere: Callable[[np.ndarray], float]
) -> None:
    noisy = sphere(2000)
    clean = denoise(noisy, model=model, radius=0.8)
    assert off_sphere(clean) < 0.7 * off_sphere(noisy)


def test_a_run_is_logged_and_its_options_are_short(
    model: PDFlow, sphere: Sphere, caplog: pytest.LogCaptureFixture
) -> None:
    run = Denoiser(model, iterations=1)
    assert len(repr(run)) < 300
    with caplog.at_level("INFO", logger="pdflow"):
        run(PointCloud(sphere(200)))
    assert [record.getMessage().split()[0] for record in caplog.records] == [
        "200",
        "pass",
        "Report:",
    ]


def test_order_and_twins_make_no_difference(model: PDFlow, sphere: Sphere) -> None:
    noisy = sphere(1500)
    clean = denoise(noisy, model=model)
    order = np.random.default_rng(0).permutation(len(noisy))
    assert denoise(noisy[order], model=model) == pytest.approx(clean[order], abs=1e-9)
    # As if a file were merged with a copy of itself that was rounded.
    twice = np.concatenate([noisy, np.round(noisy, 7)])
    twins = denoise(twice, model=model)
    assert twins[:1500] == pytest.approx(clean, abs=1e-9)
    assert twins[1500:] - twice[1500:] == pytest.approx(clean - noisy, abs=1e-6)
