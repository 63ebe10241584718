"""What a cloud says about its own noise, beyond the estimate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import Denoiser


@pytest.fixture
def terrain() -> np.ndarray:
    """Every hundredth point of an airborne scan: 60 feet apart, 20 feet up and down."""
    rng = np.random.default_rng(0)
    points = rng.random((900, 3)) * [2000, 2000, 0]
    points[:, 2] = 20 * rng.normal(size=900)
    return points


@pytest.mark.parametrize(
    ("returns", "options", "stay"),
    [(3, {}, True), (1, {}, False), (None, {}, False), (3, {"noise": 20.0}, False)],
)
def test_more_noise_than_laser_scanners_have_moves_nothing(
    model: PDFlow, terrain: np.ndarray, returns: int | None, options: dict[str, Any], stay: bool
) -> None:
    attributes = {}
    if returns is not None:
        attributes["number_of_returns"] = np.ones(len(terrain), np.uint8)
        attributes["number_of_returns"][::7] = returns
    run = Denoiser(model, iterations=1, uncertainty=True, **options)
    done = run(PointCloud(terrain, attributes))
    assert done.report.noise_before > 10
    assert np.array_equal(done.cloud.points, terrain) == stay
    assert done.report.held_back["implausible"] == stay * len(terrain)
    assert np.isnan(done.cloud.attributes["uncertainty"]).all() == stay
    assert (done.report.iterations == 0) == stay
    assert (done.report.noise_after == done.report.noise_before) == stay
    assert (done.report.noise_kind == "given") == bool(options)


def test_less_noise_is_believed(model: PDFlow, terrain: np.ndarray) -> None:
    returns = np.full(len(terrain), 2, np.uint8)
    done = Denoiser(model, iterations=1)(PointCloud(terrain / 100, {"number_of_returns": returns}))
    assert not np.array_equal(done.cloud.points, terrain / 100)


def sheet(noise: float) -> np.ndarray:
    """A grid of points whose spacing is 1, with noise of some spacings."""
    places = np.stack(np.meshgrid(np.arange(30.0), np.arange(30.0)), -1).reshape(-1, 2)
    return np.c_[places, noise * np.random.default_rng(0).normal(size=len(places))]


def test_a_cloud_without_noise_keeps_its_bits(model: PDFlow) -> None:
    done = Denoiser(model)(PointCloud(sheet(0.0) + 1e5))
    assert np.array_equal(done.cloud.points, sheet(0.0) + 1e5)
    assert done.report.iterations == 0
    assert not any(done.report.held_back.values())
    assert done.report.noise_after == done.report.noise_before


@pytest.mark.parametrize(
    ("noise", "options"), [(0.1, {}), (0.0, {"iterations": 1}), (0.0, {"mode": "resample"})]
)
def test_noise_or_a_wish_makes_passes(model: PDFlow, noise: float, options: dict[str, Any]) -> None:
    assert Denoiser(model, **options)(PointCloud(sheet(noise))).report.iterations > 0
