"""How far points may still be off the surface."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.uncertainty import COVERED, expected_error


def test_most_points_are_within_what_they_claim(
    model: PDFlow, sphere: Callable[..., np.ndarray]
) -> None:
    noisy = np.concatenate([sphere(2500, noise=0.03), [[6.0, 6, 6]]])
    where = np.arange(2501) >= 200
    run = Denoiser(model, iterations=1, uncertainty=True, where=where)
    done = run(PointCloud(noisy)).cloud
    claimed = done.attributes["uncertainty"]
    assert run.added == ("uncertainty",)
    assert np.flatnonzero(np.isnan(claimed)).tolist() == [2500]
    off = np.abs(np.linalg.norm(done.points[:-1], axis=1) - 1)
    within = off <= claimed[:-1]
    assert within[200:].mean() > COVERED - 0.1
    assert within[:200].mean() > COVERED - 0.1
    assert np.median(claimed[200:-1]) < 0.05
    # Points that were left out claim the way that they did not go as well.
    assert np.median(claimed[:200]) > 1.3 * np.median(claimed[200:-1])


def test_it_scales_with_the_cloud_and_grows_with_noise_and_disagreement() -> None:
    reach, sigma, spread = np.ones(3), np.array([0.1, 0.2, 0.1]), np.array([0.01, 0.01, 0.02])
    errors = expected_error(reach, sigma, spread)
    assert errors[0] < errors[1]
    assert errors[0] < errors[2]
    assert expected_error(7 * reach, 7 * sigma, 7 * spread) == pytest.approx(7 * errors)
    assert (expected_error(reach, 0 * sigma, 0 * spread) > 0).all()


def test_without_it_nothing_is_measured(model: PDFlow, sphere: Callable[..., np.ndarray]) -> None:
    cloud = PointCloud(sphere(300))
    plain = Denoiser(model, iterations=1)(cloud).cloud
    assert "uncertainty" not in plain.attributes
    asked = Denoiser(model, iterations=1, uncertainty=True)(cloud).cloud
    assert np.array_equal(asked.points, plain.points)


def test_resampled_points_have_none(model: PDFlow) -> None:
    with pytest.raises(PdflowError, match="uncertainty needs mode='points'"):
        Denoiser(model, mode="resample", uncertainty=True)
