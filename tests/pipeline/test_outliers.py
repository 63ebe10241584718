"""Outliers are kept, marked or removed, and influence no other point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.model import PDFlow
from pdflow.pipeline.api import denoise
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.outliers import find_outliers

Sphere = Callable[..., np.ndarray]


def test_outliers_are_kept_marked_or_removed_and_bend_nothing(
    model: PDFlow, sphere: Sphere
) -> None:
    noisy = sphere(2000)
    apart = np.array([[9.0, 0, 0], [0, 7.0, 0], [0, 0, -8.0]])
    cloud = PointCloud(np.concatenate([noisy, apart]))
    kept = Denoiser(model, outliers="keep")(cloud)
    marked = Denoiser(model, outliers="mark")(cloud)
    removed = Denoiser(model, outliers="remove")(cloud)
    assert np.array_equal(kept.cloud.points[2000:], apart)
    assert marked.cloud.attributes["outlier"].tolist()[-4:] == [0, 1, 1, 1]
    assert len(removed.cloud) == 2000
    assert removed.report.outliers == 3
    alone = denoise(noisy, model=model)
    assert np.abs(removed.cloud.points - alone).max() < 1e-3


@pytest.mark.parametrize(("deviations", "found"), [(4.5, 0), (8.0, 1)])
def test_a_point_that_noise_explains_is_no_outlier(
    model: PDFlow, deviations: float, found: int, sphere: Sphere
) -> None:
    noisy = sphere(10000, noise=0.2)
    noisy[7] *= (1 + deviations * 0.2) / np.linalg.norm(noisy[7])
    assert find_outliers(NeighborSearch(noisy)).nonzero()[0].tolist() == [7]
    done = Denoiser(model)(PointCloud(noisy))
    assert done.report.outliers == found
    assert np.array_equal(done.cloud.points[7], noisy[7]) == bool(found)
