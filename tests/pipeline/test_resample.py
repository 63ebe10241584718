"""Mode "resample": new points, evenly spread over the surface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.model import PDFlow
from pdflow.pipeline import passes
from pdflow.pipeline.api import denoise
from pdflow.pipeline.denoise import Denoiser

Sphere = Callable[..., np.ndarray]


def test_resampling_spreads_points_evenly_and_takes_attributes_along(
    model: PDFlow, sphere: Sphere, off_sphere: Callable[[np.ndarray], float]
) -> None:
    noisy = sphere(2000)
    cloud = PointCloud(noisy, {"row": np.arange(2000)})
    done = Denoiser(model, mode="resample", points=1200)(cloud)
    assert len(done.cloud) == 1200
    rows = done.cloud.attributes["row"]
    gaps = np.linalg.norm(done.cloud.points[:, None] - noisy[None], axis=2)
    assert np.array_equal(gaps.argmin(axis=1), rows)
    assert off_sphere(done.cloud.points) < 0.5 * off_sphere(noisy)


@pytest.mark.parametrize("count", [1, 5, 2000])
def test_any_number_of_points_is_resampled_in_any_number_of_passes(
    model: PDFlow, count: int, sphere: Sphere, off_sphere: Callable[[np.ndarray], float]
) -> None:
    done = Denoiser(model, mode="resample", points=count, iterations=2)(PointCloud(sphere(300)))
    assert len(done.cloud) == count
    assert off_sphere(done.cloud.points) < 0.1


def test_components_get_their_share_of_new_points(model: PDFlow, sphere: Sphere) -> None:
    noisy = np.concatenate([sphere(700), sphere(300, seed=1) + 1e4])
    for count in (1000, 4000):
        clean = denoise(noisy, model=model, mode="resample", points=count)
        assert len(clean) == count
        assert (clean[:, 0] > 5e3).mean() == pytest.approx(0.3, abs=0.05)


def test_resampling_leaves_kept_outliers_where_they_are(model: PDFlow, sphere: Sphere) -> None:
    apart = np.array([[9.0, 0, 0], [0, 7.0, 0], [0, 0, -8.0]])
    cloud = PointCloud(np.concatenate([sphere(900), apart]))
    kept = Denoiser(model, mode="resample")(cloud).cloud
    assert len(kept) == 903
    assert {tuple(p) for p in apart} == {tuple(p) for p in kept.points if np.linalg.norm(p) > 2}
    marked = Denoiser(model, mode="resample", outliers="mark")(cloud).cloud
    assert marked.attributes["outlier"][-3:].tolist() == [1, 1, 1]
    removed = Denoiser(model, mode="resample", outliers="remove", points=50)(cloud).cloud
    assert len(removed) == 50
    assert np.linalg.norm(removed.points, axis=1).max() < 2


@pytest.mark.parametrize(
    ("points", "expected"),
    [(700, ["points", "points", "resample"]), (3000, ["resample", "points", "resample"])],
)
def test_passes_are_sampled_at_the_end_and_to_add_points(
    model: PDFlow, monkeypatch: pytest.MonkeyPatch, points: int, expected: list[str], sphere: Sphere
) -> None:
    stitched: list[str] = []
    for name, original in passes.STITCHERS.items():

        def spy(*given: Any, name: str = name, original: Any = original) -> Any:
            stitched.append(name)
            return original(*given)

        monkeypatch.setitem(passes.STITCHERS, name, spy)
    run = Denoiser(model, mode="resample", iterations=3, partitions=1, points=points)
    assert len(run(PointCloud(sphere(1500))).cloud) == points
    assert stitched == expected
