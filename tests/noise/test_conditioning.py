"""The rule that scales the noise a network is conditioned on."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.neighbors import NeighborSearch
from pdflow.noise.conditioning import (
    CORRELATED,
    LARGEST,
    SAME,
    SURE,
    average_nearby,
    certain,
    of_correlated,
)
from pdflow.noise.estimate import NoiseEstimate, estimate_noise
from pdflow.noise.known import known_noise
from pdflow.pipeline.plan import Conditioning
from pdflow.scenes.cases import make_case


def conditioned(kind: str, seed: int, level: float = 0.01, points: int = 6000) -> float:
    """The conditioning of a made scan over its estimated noise: the geometric mean over places."""
    noisy = make_case(kind, seed, points, level).noisy
    noise = estimate_noise(noisy)
    places = noisy[::100]
    return float(np.exp(np.log(noise.conditioning_at(places) / noise.at(places)).mean()))


def test_close_plates_are_smoothed_less() -> None:
    assert max(conditioned("plates", 920_000 + seed, 0.005) for seed in range(3)) < 0.75


def test_ordinary_surfaces_are_conditioned_on_their_noise() -> None:
    for kind in ("sharp-edges", "open-sheet"):
        assert abs(np.log(conditioned(kind, 920_000))) < 0.1


def test_noise_that_neighbours_share_is_smoothed_more() -> None:
    # In two of the five scenes the noise may as well be independent.
    factors = [conditioned("depth-camera", 920_000 + seed) for seed in range(5)]
    assert np.median(factors) > 1.25
    assert min(factors) > 0.9


def test_only_surely_correlated_noise_has_a_further_factor() -> None:
    assert [of_correlated(p) for p in (0.0, 0.5, SURE[0])] == [0, 0, 0]
    assert 0 < of_correlated(sum(SURE) / 2) < of_correlated(1.0) == CORRELATED


@pytest.mark.parametrize("points", [1500, 4000])
def test_one_flat_layer_is_not_taken_for_two(points: int) -> None:
    rng = np.random.default_rng(7)
    plane = np.column_stack([rng.random((points, 2)), 0.01 * rng.normal(size=points)])
    noise = estimate_noise(plane)
    assert np.abs(np.log(noise.conditioning_at(plane) / noise.at(plane))).mean() < 0.2


def test_shift_and_rotation_leave_the_factors() -> None:
    rng = np.random.default_rng(0)
    noisy = make_case("plates", 920_001, 3000, 0.01).noisy
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    before, after = estimate_noise(noisy), estimate_noise(noisy @ turn.T * 3 + 5)
    places = noisy[::50]
    expected = before.conditioning_at(places) * 3
    assert np.allclose(after.conditioning_at(places @ turn.T * 3 + 5), expected, rtol=1e-4)


def test_a_tiny_change_changes_the_factors_little() -> None:
    noisy = make_case("depth-camera", 920_000, 3000, 0.01).noisy
    moved = noisy + 1e-7 * np.random.default_rng(0).normal(size=noisy.shape)
    places = noisy[::50]
    before, after = (estimate_noise(p).conditioning_at(places) for p in (noisy, moved))
    assert np.abs(after / before - 1).max() < 1e-3


def test_factors_are_bounded() -> None:
    noise = estimate_noise(np.random.default_rng(1).random((2000, 3)))
    assert len(noise.log_factors) == len(noise.queries)
    assert np.abs(noise.log_factors).max() <= LARGEST


def test_no_noise_has_no_broken_factors() -> None:
    plane = np.random.default_rng(2).random((2000, 3)) * [1, 1, 0]
    assert np.isfinite(estimate_noise(plane).conditioning_at(plane[:5])).all()


def test_what_may_be_chance_counts_as_one() -> None:
    assert certain(np.array([SAME, -SAME, 0.0])).tolist() == [0, 0, 0]
    assert np.isclose(certain(np.array([-1.0]))[0], SAME - 1)


def test_nearby_queries_count_most() -> None:
    queries = np.array([[0.0, 0, 0], [1, 0, 0], [3, 0, 0]])
    values = np.array([1.0, 2, 9])
    at = average_nearby(np.array([[0.1, 0, 0]]), queries, values)[0]
    assert 1 < at < 1.6


def test_equally_far_queries_count_alike() -> None:
    assert average_nearby(np.zeros((1, 3)), np.ones((1, 3)), np.array([3.0])).tolist() == [3.0]
    same = np.zeros((2, 3))
    assert average_nearby(same, same, np.array([1.0, 2])).tolist() == [1.5, 1.5]


def test_a_level_given_by_hand_is_taken_as_it_is() -> None:
    noisy = make_case("plates", 920_000, 3000, 0.005).noisy
    noise = known_noise(NeighborSearch(noisy), 0.005)
    assert Conditioning(noise, 0.5).at(noisy[:4]).tolist() == [0.0025] * 4


def test_passes_are_conditioned_by_the_factors() -> None:
    queries = np.zeros((1, 3)) + np.arange(3)[:, None]
    noise = NoiseEstimate(
        1.0, 0.1, 1.0, True, queries, np.ones(3), np.ones(3), log_factors=np.full(3, SAME + 1.0)
    )
    assert np.allclose(Conditioning(noise, 0.5).at(queries[:2] + 0.2), 0.5 * np.e)
