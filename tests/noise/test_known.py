"""Noise levels that the caller gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdflow.errors import PdflowError
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.noise.estimate import estimate_noise
from pdflow.noise.known import check_noise, known_noise


@pytest.fixture
def search() -> NeighborSearch:
    rng = np.random.default_rng(0)
    return NeighborSearch(rng.random((2000, 3)) * [1, 1, 0] + 0.01 * rng.normal(size=(2000, 3)))


def test_one_level_holds_everywhere(search: NeighborSearch) -> None:
    noise = known_noise(search, 0.02)
    estimate = estimate_noise(search)
    assert (noise.at(search.points[:9]) == 0.02).all()
    assert noise.spacing == estimate.spacing
    assert noise.relative == pytest.approx(0.02 / estimate.sigma * estimate.relative)


def test_every_point_may_have_its_own(search: NeighborSearch) -> None:
    levels = np.linspace(0.01, 0.03, len(search))
    noise = known_noise(search, levels)
    assert noise.sigma == pytest.approx(0.02, rel=1e-3)
    assert np.array_equal(noise.at(search.points[::7]), levels[::7])


@pytest.mark.parametrize("level", [-1.0, np.nan, np.inf, "much", [0.1, 0.2], None, [-1.0] * 5])
def test_anything_else_is_refused_in_one_sentence(level: Any) -> None:
    with pytest.raises(PdflowError, match=r"^noise [^\n]+\.$"):
        check_noise(level, 5)
