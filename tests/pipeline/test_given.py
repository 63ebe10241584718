"""Options that set what a run would decide itself: the noise, and how far points may move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import Denoiser
from pdflow.weights import load_model


@pytest.fixture(scope="module")
def model() -> PDFlow:
    return load_model("pdflow")


@pytest.fixture(scope="module")
def cloud() -> PointCloud:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(1500, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    noisy = points + 0.03 * rng.normal(size=points.shape)
    noisy = np.concatenate([noisy, noisy[:20]])
    return PointCloud(noisy, {"sigma": np.full(1520, 0.03), "name": np.full(1520, "x")})


def off_sphere(cloud: PointCloud) -> float:
    return float(np.std(np.linalg.norm(cloud.points, axis=1)))


def test_more_noise_smooths_more(model: PDFlow, cloud: PointCloud) -> None:
    little, right = (Denoiser(model, iterations=1, noise=level)(cloud) for level in (0.003, 0.03))
    assert right.report.noise_before == 0.03
    assert off_sphere(right.cloud) < 0.7 * off_sphere(little.cloud)


def test_a_level_for_each_point_is_one_level_if_all_are_equal(
    model: PDFlow, cloud: PointCloud
) -> None:
    runs = [
        Denoiser(model, iterations=1, noise=noise)(cloud).cloud.points
        for noise in (0.03, np.full(len(cloud), 0.03), "sigma")
    ]
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        ("other", "no attribute 'other'"),
        ("name", "noise"),
        (np.ones(3), "shape"),
        (-1, "0 or more"),
    ],
)
def test_what_is_no_level_is_refused(
    model: PDFlow, cloud: PointCloud, noise: object, words: str
) -> None:
    with pytest.raises(PdflowError, match=words):
        Denoiser(model, noise=noise)(cloud)  # type: ignore[arg-type]


def test_no_point_moves_farther_than_it_may(model: PDFlow, cloud: PointCloud) -> None:
    free = Denoiser(model, max_move=np.inf)(cloud)
    bound = 0.5 * free.report.max_displacement
    held = Denoiser(model, max_move=bound)(cloud)
    assert free.report.held_back["bound"] == 0
    assert held.report.max_displacement <= bound * (1 + 1e-9)
    moved = np.linalg.norm(free.cloud.points - cloud.points, axis=1)
    assert held.report.held_back["bound"] == np.count_nonzero(moved > bound)
    slow = moved <= bound
    assert np.array_equal(held.cloud.points[slow], free.cloud.points[slow])


@pytest.mark.parametrize("option", [{"max_move": 1.0}, {"where": "z > 0"}])
def test_resampled_points_cannot_be_held_back(model: PDFlow, option: dict[str, Any]) -> None:
    with pytest.raises(PdflowError, match="needs mode='points'"):
        Denoiser(model, mode="resample", **option)
