"""Isolated points stay where they are, unless noise explains them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.outliers.isolated import find_isolated_points

Sphere = Callable[..., np.ndarray]


@pytest.mark.parametrize(("deviations", "found"), [(4.5, 0), (8.0, 1)])
def test_a_point_that_noise_explains_is_no_outlier(
    model: PDFlow, deviations: float, found: int, sphere: Sphere
) -> None:
    noisy = sphere(10000, noise=0.2)
    noisy[7] *= (1 + deviations * 0.2) / np.linalg.norm(noisy[7])
    assert find_isolated_points(NeighborSearch(noisy)).nonzero()[0].tolist() == [7]
    done = Denoiser(model)(PointCloud(noisy))
    assert done.report.outliers == found
    assert np.array_equal(done.cloud.points[7], noisy[7]) == bool(found)
