"""Connected components are denoised one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.model import PDFlow
from pdflow.noise.estimate import NoiseEstimate
from pdflow.pipeline.api import denoise
from pdflow.pipeline.denoise import Denoiser

Sphere = Callable[..., np.ndarray]


def test_far_apart_parts_are_both_denoised(
    model: PDFlow, sphere: Sphere, off_sphere: Callable[[np.ndarray], float]
) -> None:
    one, other = sphere(1500), sphere(1500, seed=1)
    clean = denoise(np.concatenate([one, other + 500.0]), model=model)
    assert off_sphere(clean[:1500]) < 0.6 * off_sphere(one)
    assert off_sphere(clean[1500:] - 500.0) < 0.6 * off_sphere(other)


def test_components_smaller_than_a_patch_are_clouds_of_their_own(
    model: PDFlow, monkeypatch: pytest.MonkeyPatch, sphere: Sphere
) -> None:
    """All but for the noise, which is that of the whole cloud."""
    noise = NoiseEstimate(0.04, relative=0.04, spacing=0.01, reliable=True)
    for estimate in ("survey.estimate_noise", "passes.estimate_remaining"):
        monkeypatch.setattr(f"pdflow.pipeline.{estimate}", lambda points: noise)
    components = [
        sphere(700),
        0.01 * sphere(900, seed=1),
        sphere(80, seed=2),
        sphere(40, seed=3),
    ]
    places = np.array([[0.0, 0, 0], [300, 0, 0], [1e6, 0, 0], [-1e6, 0, 0]])
    noisy = np.concatenate([i + at for i, at in zip(components, places, strict=True)])
    shares: list[float] = []
    run = Denoiser(model, iterations=1, partitions=1)
    done = run(PointCloud(noisy), shares.append)
    parts = np.split(done.cloud.points, [700, 1600, 1680])
    for part, component, at in zip(parts[:3], components, places, strict=False):
        alone = run(PointCloud(component)).cloud.points
        assert np.abs(part - at - alone).max() < 1e-4 * np.ptp(component)
    assert np.array_equal(parts[3], noisy[1680:])
    assert sum(shares) == pytest.approx(1)


def test_few_points_far_from_all_others_stay_where_they_are(
    model: PDFlow, sphere: Sphere, off_sphere: Callable[[np.ndarray], float]
) -> None:
    few = [sphere(30, seed=i) + np.array([1e6 * (i + 1), 0, 0]) for i in range(5)]
    noisy = np.concatenate([sphere(700), *few])
    clean = denoise(noisy, model=model)
    assert np.array_equal(clean[700:], noisy[700:])
    assert off_sphere(clean[:700]) < 0.7 * off_sphere(noisy[:700])
