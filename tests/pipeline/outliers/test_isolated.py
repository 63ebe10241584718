"""Isolated points stay where they are, unless noise explains them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.outliers.isolated import CUT, find_isolated_points, outlier_limit

Sphere = Callable[..., np.ndarray]


@pytest.mark.parametrize(("deviations", "found"), [(4.5, 0), (8.0, 1)])
def test_a_point_that_noise_explains_is_no_outlier(
    model: PDFlow, deviations: float, found: int, sphere: Sphere
) -> None:
    noisy = sphere(6000, noise=0.2)
    noisy[7] *= (1 + deviations * 0.2) / np.linalg.norm(noisy[7])
    assert find_isolated_points(NeighborSearch(noisy)).nonzero()[0].tolist() == [7]
    done = Denoiser(model)(PointCloud(noisy))
    assert done.report.outliers == found
    assert np.array_equal(done.cloud.points[7], noisy[7]) == bool(found)


@pytest.mark.parametrize("count", [0, 1, 5, 100_000, 100_001])
@pytest.mark.parametrize("kind", ["normal", "sorted", "few different", "misleading"])
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
def test_the_limit_comes_from_medians(count: int, kind: str) -> None:
    rng = np.random.default_rng(5)
    values = {
        "normal": rng.normal(size=count),
        "sorted": np.sort(rng.normal(size=count)),
        "few different": rng.integers(0, 3, count) * 1.0,
        "misleading": np.where(np.arange(count) % 64, 1.0, 0.0) + rng.random(count),
    }[kind]
    middle = np.median(values)
    spread = 1.4826 * np.median(np.abs(values - middle))
    expected = middle + CUT * max(spread, 0.05)
    np.testing.assert_equal(outlier_limit(values), expected)
