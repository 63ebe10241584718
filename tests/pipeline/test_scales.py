"""Two answers of a first pass become one: coarse where a surface is smooth, fine elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.config import InferenceConfig
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.plan import Plan, two_scales
from pdflow.pipeline.scales import blend_scales

SIGMA = 0.03


def _answers(bumps: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A noisy surface, an answer that keeps some noise, one without bumps and noise, and sigma."""
    rng = np.random.default_rng(0)
    flat = np.pad(rng.random((3000, 2)), ((0, 0), (0, 1)))
    clean = flat + np.outer(bumps * np.sin(40 * flat[:, 0]), [0, 0, 1])
    noise = SIGMA * rng.normal(size=clean.shape)
    return clean + noise, clean + 0.3 * noise, flat + 0.1 * noise, np.full(len(flat), SIGMA)


def _weight(bumps: float) -> float:
    """The mean weight of the coarse answer."""
    noisy, fine, coarse, sigma = _answers(bumps)
    blended = blend_scales(noisy, NeighborSearch(fine), coarse, sigma)
    way = coarse - fine
    return float(((blended - fine) * way).sum() / (way**2).sum())


def test_the_coarse_answer_counts_less_where_it_takes_detail_away() -> None:
    smooth, detailed = _weight(bumps=0.0), _weight(bumps=0.05)
    assert smooth > 0.5
    assert detailed < smooth - 0.1


def test_bounds_on_the_weight_hold() -> None:
    noisy, fine, coarse, sigma = _answers(0.02)
    search = NeighborSearch(fine)
    assert np.array_equal(blend_scales(noisy, search, coarse, sigma, (0.0, 0.0)), fine)
    assert np.allclose(blend_scales(noisy, search, coarse, sigma, (1.0, 1.0)), coarse)


def test_only_wanted_points_are_blended() -> None:
    noisy, fine, coarse, sigma = _answers(0.02)
    search, wanted = NeighborSearch(fine), np.arange(len(fine)) < 100
    every = blend_scales(noisy, search, coarse, sigma)
    some = blend_scales(noisy, search, coarse, sigma, wanted=wanted)
    assert np.array_equal(some[wanted], every[wanted])
    assert np.array_equal(some[~wanted], fine[~wanted])


def test_few_points_without_noise_are_blended() -> None:
    points = np.random.default_rng(0).random((20, 3))
    blended = blend_scales(points, NeighborSearch(points), points, np.zeros(20))
    assert np.array_equal(blended, points)


def test_weights_change_continuously_with_the_noise() -> None:
    thresholds = (0.04, 0.06, 0.25)

    def finest(ratio: float) -> tuple[float, float]:
        """Bounds of the mean number of partitions, in powers of two."""
        plan = two_scales(2, ratio, thresholds)
        least, most = plan.bounds if plan.coarse else (0.0, 0.0)
        return np.log2(plan.partitions) + least, np.log2(plan.partitions) + most

    ratios = np.linspace(0.01, 0.8, 4000)
    least, most = np.array([finest(ratio) for ratio in ratios]).T
    assert np.abs(np.diff(least)).max() < 0.02
    assert np.abs(np.diff(most)).max() < 0.02
    assert (np.diff(least) >= 0).all()
    assert (np.diff(most) >= 0).all()
    assert most[0] == 0
    assert least[-1] >= 2


def test_what_the_caller_decides_is_the_only_scale() -> None:
    plan = Plan(2, 1, 2, (0.0, 1.0))
    assert plan.given("auto", "auto") == plan
    assert plan.given(3, "auto") == Plan(3, 1)
    assert plan.given("auto", 4) == Plan(2, 4)
    assert plan.within(1000) == plan
    assert plan.within(10) == Plan(2, 1)


@pytest.mark.parametrize("mode", ["points", "resample"])
@pytest.mark.parametrize("seed", [None, 1])
def test_a_run_reports_both_scales(small_model: PDFlow, mode: str, seed: int | None) -> None:
    inference = replace(small_model.inference, scale_thresholds=(0.001, 0.002, 5.0))
    model = PDFlow(small_model.config, inference).eval()
    model.load_state_dict(small_model.state_dict())
    cloud = PointCloud(_answers(0.0)[0])
    shares: list[float] = []
    done = Denoiser(model, mode=mode, seed=seed, noise=SIGMA)(cloud, shares.append)  # type: ignore[arg-type]
    assert (done.report.partitions, done.report.coarse_partitions) == (1, 2)
    assert len(done.cloud) == len(cloud)
    assert sum(shares) == pytest.approx(1.0)
    one = Denoiser(model, mode=mode, seed=seed, noise=SIGMA, partitions=1)(cloud)  # type: ignore[arg-type]
    assert one.report.coarse_partitions == 0
    assert not np.array_equal(done.cloud.points, one.cloud.points)


def test_thresholds_rise() -> None:
    for thresholds in ((0.1, 0.2), (0.2, 0.1, 0.3), (0.0, 0.1, 0.2)):
        with pytest.raises(Exception, match="three rising numbers"):
            InferenceConfig(scale_thresholds=thresholds)
