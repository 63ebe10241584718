"""Large clouds: a part with its surroundings gives the same result as the whole cloud."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.model import PDFlow
from pdflow.noise.estimate import NoiseEstimate
from pdflow.pipeline import large
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.normalise import normalise
from pdflow.pipeline.passes import Pass
from pdflow.pipeline.plan import Plan
from pdflow.pipeline.survey import far_points, survey_cloud


@pytest.fixture
def strip() -> np.ndarray:
    """A long noisy strip, wide as a patch of the small network."""
    rng = np.random.default_rng(0)
    points = rng.random((9000, 3)) * [900, 10, 0]
    points[:, 2] = np.sin(points[:, 0] / 20)
    return points + 0.2 * rng.normal(size=points.shape)


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "LARGE", 2000)
    monkeypatch.setattr(large, "CELL", 1000)


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_pass_over_a_part_equals_one_over_the_whole(
    small_model: PDFlow, strip: np.ndarray, partitions: int, seed: int | None
) -> None:
    given, search = normalise(PointCloud(strip))
    layout = large.lay_out(given)
    assert layout is not None
    assert layout.cells is not None
    passes = Denoiser(small_model, seed=seed).passes()
    noise, plan = NoiseEstimate(0.2, 0.001, 0.5, True), Plan(1, partitions)
    whole = Pass(passes, search, noise, plan, 0, layout).moved().points
    along = given.points[:, 0]
    near = np.isin(layout.cells, np.unique(layout.cells[np.abs(along) < 120]))
    part = replace(layout.take(near), wanted=np.abs(along[near]) < 30)
    search = NeighborSearch(given.points[near])
    moved = Pass(passes, search, noise, plan, 0, part).moved().points
    assert len(search) < 6000
    assert part.wanted is not None
    assert np.array_equal(moved[part.wanted], whole[near][part.wanted])
    assert not np.array_equal(moved[part.wanted], search.points[part.wanted])


def test_a_large_cloud_keeps_its_rows_and_loses_noise(
    model: PDFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    plane = rng.random((6000, 3)) * [1, 1, 0]
    noisy = PointCloud(plane + 0.01 * rng.normal(size=plane.shape))
    clean = Denoiser(model, iterations=1, partitions=1)(noisy).cloud.points
    monkeypatch.setattr(large, "LARGE", 10_000)
    as_small = Denoiser(model, iterations=1, partitions=1)(noisy).cloud.points
    assert not np.array_equal(clean, as_small)
    assert clean[:, 2].std() == pytest.approx(as_small[:, 2].std(), rel=0.05)
    assert clean[:, 2].std() < 0.5 * noisy.points[:, 2].std()


def test_a_sample_decides_for_a_cloud_that_is_larger(
    strip: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "SAMPLE", 4000)
    layout = large.lay_out(normalise(PointCloud(strip))[0])
    assert layout is not None
    assert layout.sampled is not None
    assert 2000 < np.count_nonzero(layout.sampled) < 6000
    assert np.ptp(strip[layout.sampled, 0]) > 700


def test_the_survey_of_a_cloud_finds_outliers_in_a_part_of_it(strip: np.ndarray) -> None:
    strip[::1000, 2] += 40
    far, survey = survey_cloud(NeighborSearch(strip), None, lambda search, noise: Plan(1, 1))
    assert np.array_equal(np.flatnonzero(far), np.arange(0, 9000, 1000))
    part = np.abs(strip[:, 0] - 450) < 100
    assert np.array_equal(far_points(NeighborSearch(strip[part]), survey), far[part])
