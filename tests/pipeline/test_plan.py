"""How many passes a cloud gets, and what conditions them."""

from __future__ import annotations

import numpy as np

from pdflow.config import InferenceConfig
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.noise.estimate import NoiseEstimate
from pdflow.pipeline.plan import Plan, believed, conditioning_scale, make_plan


def _noise(sigma: float) -> NoiseEstimate:
    return NoiseEstimate(sigma, relative=sigma, spacing=0.01, reliable=True)


def test_more_noise_asks_for_more_passes_and_then_for_partitions() -> None:
    inference = InferenceConfig(pass_thresholds=(0.04, 0.12), partition_thresholds=(0.1, 0.2))
    square = np.pad(np.random.default_rng(0).random((640, 2)), ((0, 0), (0, 1)))
    search = NeighborSearch(square)
    radius = np.sqrt(0.1 / np.pi)
    plans = [
        make_plan(search, _noise(share * radius), 64, inference) for share in (0.02, 0.08, 0.15)
    ]
    assert plans == [Plan(1, 1), Plan(2, 1), Plan(3, 1)]
    much = make_plan(search, _noise(0.3 * radius), 64, inference)
    assert much.passes == 3
    assert much.partitions >= 4


def test_first_passes_at_one_and_two_scales_and_later_ones_have_their_own_scales() -> None:
    inference = InferenceConfig(conditioning_scales=(0.8, 0.6, 0.3))
    both = Plan(3, 1, 2, (0.0, 1.0))
    assert conditioning_scale(inference, 0, Plan(2, 1)) == 0.8
    found = [conditioning_scale(inference, done, both) for done in range(3)]
    assert np.allclose(found, [0.6, 0.3, 0.3])


def test_the_scale_fades_as_the_coarser_answer_does() -> None:
    inference = InferenceConfig(conditioning_scales=(0.8, 0.6, 0.3))
    assert np.isclose(conditioning_scale(inference, 0, Plan(2, 1, 2, (0.0, 0.25))), 0.75)


def _local(levels: list[float]) -> NoiseEstimate:
    queries = np.random.default_rng(0).random((len(levels), 3))
    return NoiseEstimate(0.01, 0.01, 0.01, True, queries, np.array(levels))


def test_strong_noise_in_a_small_part_of_a_cloud_is_not_believed() -> None:
    assert believed(_local([0.01] * 80 + [0.5] * 20)).local.max() == 3 * 0.01


def test_strong_noise_in_much_of_a_cloud_is_believed() -> None:
    assert believed(_local([0.0] * 50 + [0.2] * 50)).local.max() == 0.2
    assert believed(_noise(0.1)) == _noise(0.1)
