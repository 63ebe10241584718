from __future__ import annotations

import importlib.resources
import json

import numpy as np
import pytest

from pdflow.noise.neighborhoods import describe
from pdflow.noise.network import Reading, load_network, weighted_quantile


def test_fits_the_description() -> None:
    points = np.random.default_rng(0).standard_normal((400, 3)) * [1, 1, 0.05]
    seen = describe(points, points[:50])
    network = load_network()
    assert seen.description.shape[1] == len(network.mean)
    reading = network.read(seen.description, seen.reach, np.ones(50))
    assert reading.local.shape == reading.certainty.shape == (50,)
    assert 0 <= reading.correlated <= 1
    assert reading.expected_error > 0


def test_queries_without_weight_are_not_read() -> None:
    points = np.random.default_rng(0).standard_normal((600, 3)) * [1, 1, 0.05]
    seen = describe(points, points[:80])
    weights = (np.arange(80) < 50).astype(float)
    all_of_them = load_network().read(seen.description, seen.reach, weights)
    some = load_network().read(seen.description[:50], seen.reach[:50], np.ones(50))
    np.testing.assert_allclose(all_of_them.local[:50], some.local)
    assert all_of_them.level(weights) == pytest.approx(some.level(np.ones(50)))
    assert all_of_them.correlated == pytest.approx(some.correlated)


def test_the_level_is_the_root_of_the_mean_square_without_extremes() -> None:
    values = np.concatenate([np.full(50, 1.0), np.full(50, 3.0)])
    weights = np.ones(100)
    assert Reading(values, weights, 0.1, 0.0).level(weights) == pytest.approx(5**0.5)
    values[-1] = 1e9
    assert Reading(values, weights, 0.1, 0.0).level(weights) == pytest.approx(5**0.5)


def test_the_network_says_where_it_comes_from() -> None:
    file = importlib.resources.files("pdflow.noise") / "estimate.json"
    about = json.loads(file.read_text("utf-8"))["about"]
    assert set(about) == {"made by", "commit", "seed", "data"}


def test_weighted_quantiles_are_those_of_repeated_values() -> None:
    values = np.array([5.0, 1.0, 2.0, 4.0])
    assert weighted_quantile(values, np.ones(4), 0.5) == 3.0
    heavy = weighted_quantile(values, np.array([1.0, 1000.0, 1.0, 1.0]), 0.5)
    assert heavy == pytest.approx(1.0, abs=0.01)
