"""The Denoiser: equivariant, deterministic, complete, and gentle with odd clouds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import pdflow
from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.pipeline import Denoiser, denoise
from pdflow.weights import load_model


@pytest.fixture(scope="module")
def model() -> PDFlow:
    return load_model("pdflow")


def _sphere(count: int, noise: float = 0.05, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points + noise * rng.normal(size=points.shape)


def _off_sphere(points: np.ndarray) -> float:
    return float(np.sqrt(np.mean((np.linalg.norm(points, axis=1) - 1) ** 2)))


def test_noise_is_removed_and_rows_are_kept(model: PDFlow) -> None:
    noisy = _sphere(3000)
    colours = np.arange(9000, dtype=np.uint8).reshape(3000, 3)
    cloud = PointCloud(noisy, {"colors": colours}, {"crs": "EPSG:25832"})
    done = Denoiser(model)(cloud)
    assert len(done.cloud) == 3000
    assert np.array_equal(done.cloud.attributes["colors"], colours)
    assert done.cloud.metadata == {"crs": "EPSG:25832"}
    assert _off_sphere(done.cloud.points) < 0.5 * _off_sphere(noisy)
    moves = np.linalg.norm(done.cloud.points - noisy, axis=1)
    assert done.report.mean_displacement == pytest.approx(moves.mean())
    assert done.report.max_displacement == pytest.approx(moves.max())
    assert moves.max() < 0.4
    assert done.report.noise_before == pytest.approx(0.05, rel=0.3)
    assert done.report.noise_after < 0.5 * done.report.noise_before


def test_it_moves_and_scales_with_the_cloud(model: PDFlow) -> None:
    noisy = _sphere(2000)
    clean = denoise(noisy, model=model)
    shift = np.array([5e6, -4e5, 300.0])
    far = denoise(250.0 * noisy + shift, model=model)
    assert np.abs((far - shift) / 250.0 - clean).max() < 1e-4


def test_utm_coordinates_keep_their_digits(model: PDFlow) -> None:
    noisy = _sphere(1500) + np.array([5e6, 4e5, 100.0])
    clean = denoise(noisy, model=model)
    assert _off_sphere(clean - np.array([5e6, 4e5, 100.0])) < 0.6 * 0.05


def test_a_second_run_gives_the_same_bits(model: PDFlow) -> None:
    noisy = _sphere(2500)
    assert np.array_equal(denoise(noisy, model=model), denoise(noisy, model=model))


def test_resampling_spreads_points_evenly_and_takes_attributes_along(model: PDFlow) -> None:
    noisy = _sphere(2000)
    cloud = PointCloud(noisy, {"row": np.arange(2000)})
    done = Denoiser(model, mode="resample", points=1200)(cloud)
    assert len(done.cloud) == 1200
    rows = done.cloud.attributes["row"]
    gaps = np.linalg.norm(done.cloud.points[:, None] - noisy[None], axis=2)
    assert np.array_equal(gaps.argmin(axis=1), rows)
    assert _off_sphere(done.cloud.points) < 0.5 * _off_sphere(noisy)


@pytest.mark.parametrize("kind", ["float64", "float32", "tensor"])
def test_the_same_kind_comes_back(model: PDFlow, kind: str) -> None:
    noisy = _sphere(500)
    given: Any = torch.from_numpy(noisy).float() if kind == "tensor" else noisy.astype(kind)
    clean = pdflow.denoise(given, model=model)
    assert type(clean) is type(given)
    assert clean.dtype == given.dtype
    assert clean.shape == given.shape


@pytest.mark.parametrize("count", [64, 65, 200, 1023, 1024, 1025, 2000])
def test_small_clouds_work(model: PDFlow, count: int) -> None:
    noisy = _sphere(count)
    clean = denoise(noisy, model=model)
    assert np.isfinite(clean).all()
    assert np.abs(clean - noisy).max() < 0.5


@pytest.mark.parametrize("count", [1, 2, 63])
def test_tiny_clouds_say_why_not(model: PDFlow, count: int) -> None:
    with pytest.raises(PdflowError, match="at least 64"):
        denoise(_sphere(count), model=model)


def test_copies_of_a_point_move_together(model: PDFlow) -> None:
    noisy = _sphere(600)
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


def test_far_apart_parts_are_both_denoised(model: PDFlow) -> None:
    one, other = _sphere(1500), _sphere(1500, seed=1)
    clean = denoise(np.concatenate([one, other + 500.0]), model=model)
    assert _off_sphere(clean[:1500]) < 0.6 * _off_sphere(one)
    assert _off_sphere(clean[1500:] - 500.0) < 0.6 * _off_sphere(other)


def test_outliers_are_kept_marked_or_removed_and_bend_nothing(model: PDFlow) -> None:
    noisy = _sphere(2000)
    strays = np.array([[9.0, 0, 0], [0, 7.0, 0], [0, 0, -8.0]])
    cloud = PointCloud(np.concatenate([noisy, strays]))
    kept = Denoiser(model, outliers="keep")(cloud)
    marked = Denoiser(model, outliers="mark")(cloud)
    removed = Denoiser(model, outliers="remove")(cloud)
    assert np.array_equal(kept.cloud.points[2000:], strays)
    assert marked.cloud.attributes["outlier"].tolist()[-4:] == [0, 1, 1, 1]
    assert len(removed.cloud) == 2000
    assert removed.report.outliers == 3
    alone = denoise(noisy, model=model)
    assert np.abs(removed.cloud.points - alone).max() < 1e-3


def test_displacement_is_stored_where_asked_for(model: PDFlow) -> None:
    noisy = _sphere(800)
    done = Denoiser(model, displacement=True)(PointCloud(noisy))
    moved = noisy + done.cloud.attributes["displacement"]
    assert moved == pytest.approx(done.cloud.points, abs=1e-12)


def test_passes_and_parts_can_be_told(model: PDFlow) -> None:
    noisy = _sphere(3000)
    done = Denoiser(model, iterations=2, parts=3)(PointCloud(noisy))
    assert (done.report.iterations, done.report.parts) == (2, 3)
    assert _off_sphere(done.cloud.points) < 0.6 * _off_sphere(noisy)


def test_progress_adds_up_to_one(model: PDFlow) -> None:
    shares: list[float] = []
    Denoiser(model, iterations=2, parts=2)(PointCloud(_sphere(2500)), shares.append)
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "blur"},
        {"outliers": "hide"},
        {"iterations": 0},
        {"iterations": "many"},
        {"parts": -1},
        {"points": 5},
        {"overlap": 0.5},
        {"radius": -1.0},
    ],
)
def test_bad_options_are_one_sentence(model: PDFlow, options: dict[str, Any]) -> None:
    with pytest.raises(PdflowError, match=r"^[^\n]+\.$"):
        Denoiser(model, **options)


def test_nonfinite_points_are_refused(model: PDFlow) -> None:
    points = _sphere(100)
    points[3] = np.nan
    with pytest.raises(PdflowError, match="NaN"):
        denoise(points, model=model)


def test_balls_can_grow_patches(model: PDFlow) -> None:
    noisy = _sphere(2000)
    clean = denoise(noisy, model=model, radius=0.8)
    assert _off_sphere(clean) < 0.7 * _off_sphere(noisy)
