from __future__ import annotations

import numpy as np
import pytest
import torch

from pdflow.geometry.neighbors import NeighborSearch
from pdflow.model import PDFlow
from pdflow.pipeline.likelihood import find_unlikely_points, likelihood_scores
from pdflow.pipeline.outliers import find_outliers


def sphere_with_outliers(height: float) -> np.ndarray:
    """3,000 points with 1 % of noise, and 20 below the surface as the last rows."""
    rng = np.random.default_rng(0)
    surface = rng.normal(size=(3000, 3))
    surface /= np.linalg.norm(surface, axis=1, keepdims=True)
    noisy = surface + 0.01 * rng.normal(size=surface.shape)
    return np.concatenate([noisy, surface[:20] * (1 - height)])


def test_the_flow_finds_outliers_near_a_surface(model: PDFlow) -> None:
    points = sphere_with_outliers(0.2)
    assert not find_outliers(NeighborSearch(points)).any()
    shares: list[float] = []
    unlikely = find_unlikely_points(model, NeighborSearch(points), shares.append)
    assert unlikely[-20:].sum() >= 12
    assert unlikely[:-20].sum() <= 3
    assert sum(shares) == pytest.approx(1)


def test_scale_and_place_do_not_matter(model: PDFlow) -> None:
    points = sphere_with_outliers(0.15)
    expected = find_unlikely_points(model, NeighborSearch(points), lambda share: None)
    found = find_unlikely_points(model, NeighborSearch(500 * points + 3000), lambda share: None)
    assert (found != expected).sum() <= 2
    assert expected.any()


def test_connected_components_are_judged_on_their_own(model: PDFlow) -> None:
    one, few = sphere_with_outliers(0.2)[-500:], np.eye(3).repeat(9, axis=0)
    shares: list[float] = []
    cloud = NeighborSearch(np.concatenate([one, few + 1e5, one + 1e6]))
    both = likelihood_scores(model, cloud, shares.append)
    alone = likelihood_scores(model, NeighborSearch(one), lambda share: None)
    np.testing.assert_allclose(both[:500], alone, atol=0.05)
    np.testing.assert_allclose(both[-500:], alone, atol=0.05)
    assert not both[500:-500].any()
    assert sum(shares) == pytest.approx(1)


def test_any_number_of_threads_gives_the_same_bits_and_is_left_as_it_was(model: PDFlow) -> None:
    points = sphere_with_outliers(0.2)
    before = torch.get_num_threads()
    scores = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            scores.append(likelihood_scores(model, NeighborSearch(points), lambda share: None))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(*scores)
