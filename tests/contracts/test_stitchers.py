"""What every stitcher must do: turn the patches of a cloud into one cloud again."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.patches import Patches, cover
from pdflow.geometry.stitch import STITCHERS, Stitcher, blend, sq_disagreement
from pdflow.pipeline.denoise import MODES

SHARPNESS = 8.0


@pytest.fixture(params=sorted(STITCHERS))
def stitch(request: pytest.FixtureRequest) -> Stitcher:
    return STITCHERS[request.param]


@pytest.fixture
def search() -> NeighborSearch:
    return NeighborSearch(np.random.default_rng(0).random((400, 3)) * [1, 1, 0.1])


@pytest.fixture
def patches(search: NeighborSearch) -> Patches:
    return cover(search, 60, 3.0)


def as_set(points: np.ndarray) -> set[tuple[float, ...]]:
    return {tuple(row) for row in points.round(12).tolist()}


def test_every_mode_has_one() -> None:
    assert set(STITCHERS) == set(MODES)


def test_patches_that_did_not_move_give_points_of_the_cloud(
    stitch: Stitcher, search: NeighborSearch, patches: Patches
) -> None:
    points = stitch(search, patches, search.points[patches.rows], 400, SHARPNESS)
    assert points.shape == (400, 3)
    assert as_set(points) <= as_set(search.points)


def test_it_moves_and_scales_with_the_patches(
    stitch: Stitcher, search: NeighborSearch, patches: Patches
) -> None:
    rng = np.random.default_rng(1)
    moved = search.points[patches.rows] + 0.01 * rng.normal(size=(*patches.rows.shape, 3))
    points = stitch(search, patches, moved, 400, SHARPNESS)
    far = NeighborSearch(4 * search.points + 64)
    again = cover(far, 60, 3.0)
    assert np.array_equal(again.rows, patches.rows)
    placed = stitch(far, again, 4 * moved + 64, 400, SHARPNESS)
    np.testing.assert_allclose(placed, 4 * points + 64, atol=1e-9)


def test_points_stay_within_what_the_patches_say(
    stitch: Stitcher, search: NeighborSearch, patches: Patches
) -> None:
    moved = search.points[patches.rows] + np.array([0.0, 0.0, 1.0])
    points = stitch(search, patches, moved, 400, SHARPNESS)
    assert points[:, 2].min() >= moved[..., 2].min() - 1e-12
    assert points[:, 2].max() <= moved[..., 2].max() + 1e-12


def test_input_is_left_alone_and_the_same_input_gives_the_same_bits(
    stitch: Stitcher, search: NeighborSearch, patches: Patches
) -> None:
    moved = search.points[patches.rows] * 1.01
    before = moved.copy()
    once = stitch(search, patches, moved, 400, SHARPNESS)
    assert np.array_equal(stitch(search, patches, moved, 400, SHARPNESS), once)
    assert np.array_equal(moved, before)


def test_disagreement_is_the_spread_of_the_predictions(
    search: NeighborSearch, patches: Patches
) -> None:
    moved = search.points[patches.rows]
    same = blend(search, patches, moved, 400, SHARPNESS)
    assert sq_disagreement(patches, moved, same, SHARPNESS).max() < 1e-20
    shifts = np.where(np.arange(len(patches)) % 2, 0.1, -0.1)
    moved = moved + shifts[:, None, None] * [0, 0, 1]
    blended = blend(search, patches, moved, 400, SHARPNESS)
    offset = (blended - search.points)[:, 2]
    # Answers of +0.1 and -0.1 with mean m have the variance 0.1^2 - m^2.
    spread = sq_disagreement(patches, moved, blended, SHARPNESS)
    np.testing.assert_allclose(spread, 0.1**2 - offset**2, atol=1e-12)
