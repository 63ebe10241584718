"""No point moves farther than its own noise explains, and points on no surface stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.model import PDFlow
from pdflow.noise.estimate import NoiseEstimate, estimate_noise
from pdflow.noise.known import known_noise
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.restraint import (
    BEYOND,
    CLOSE,
    MOST_SIGMAS,
    SOFT,
    THICK,
    _deviations,
    count_held_back,
    find_off_surface,
    hold_back,
    noise_around,
    reach_of,
)

Sphere = Callable[..., np.ndarray]


def test_moves_are_bounded_by_the_noise_that_a_run_works_with(
    model: PDFlow, sphere: Sphere
) -> None:
    # The network is told of a tenth of the noise in one half of the cloud.
    points = sphere(1500)
    level = np.where(points[:, 0] > 0, 0.005, 0.05)
    run = Denoiser(model, iterations=2, noise=level)(PointCloud(points))
    moves = np.linalg.norm(run.cloud.points - points, axis=1)
    assert (moves <= MOST_SIGMAS * level * (1 + 1e-9)).all()
    at_bound = np.isclose(moves, MOST_SIGMAS * level, rtol=1e-9)
    assert run.report.held_back["bound"] == np.count_nonzero(at_bound) > 0


def test_the_bound_stops_no_point_of_an_ordinary_cloud(model: PDFlow, sphere: Sphere) -> None:
    cloud = PointCloud(sphere(1500))
    bounded, free = Denoiser(model)(cloud), Denoiser(model, max_move=np.inf)(cloud)
    assert bounded.report.held_back["bound"] == 0
    assert np.array_equal(bounded.cloud.points, free.cloud.points)


def test_without_noise_nothing_moves(model: PDFlow, sphere: Sphere) -> None:
    points = sphere(500)
    clean = Denoiser(model, noise=0)(PointCloud(points)).cloud.points
    assert np.array_equal(clean, points)


def test_the_level_of_a_point_is_that_of_its_nearest_query() -> None:
    queries = np.array([[0.0, 0, 0], [1, 0, 0]])
    noise = known_noise(NeighborSearch(queries), np.array([0.1, 0.3]))
    places = np.array([[0.2, 0, 0], [0.8, 0.1, 0], [5, 0, 0]])
    assert noise_around(noise, places).tolist() == [0.1, 0.3, 0.3]


def test_one_level_holds_everywhere(sphere: Sphere) -> None:
    points = sphere(1500)
    everywhere = NoiseEstimate(0.2, 0.2, 1.0, True)
    assert (noise_around(everywhere, points) == 0.2).all()
    estimate = estimate_noise(points)
    assert (noise_around(estimate, points) >= estimate.sigma).all()


def _plane(count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.random((count, 3)) * [10, 10, 0] + rng.normal(size=(count, 3)) * SIGMA


SIGMA = 0.05


def _off(points: np.ndarray, moves: float) -> np.ndarray:
    """Points found off a surface if all move by a Gaussian of deviation `moves` along an axis."""
    rng = np.random.default_rng(1)
    moved = points + rng.normal(size=points.shape) * moves
    search = NeighborSearch(points)
    sigma = np.full(len(points), SIGMA)
    return find_off_surface(search, moved, sigma, 1024, reach_of(search))


def test_leaves_that_move_are_found_and_surfaces_are_not() -> None:
    rng = np.random.default_rng(0)
    plane = _plane(3000, rng)
    leaves = rng.random((1000, 3)) * 7 + [2, 2, 1]
    found = _off(np.concatenate([plane, leaves]), moves=1.5 * SIGMA)
    assert not found[:3000].any()
    assert found[3000:].mean() > 0.7


def test_leaves_that_hardly_move_are_left_alone() -> None:
    leaves = np.random.default_rng(0).random((1000, 3)) * 4
    assert not _off(leaves, moves=0.3 * SIGMA).any()


def test_a_wire_above_the_ground_is_found() -> None:
    rng = np.random.default_rng(0)
    plane = _plane(20_000, rng)
    along = np.linspace(0, 10, 30)
    wire = np.column_stack([along, np.full(30, 5.0), np.full(30, 3.0)])
    found = _off(np.concatenate([plane, wire]), moves=2 * SIGMA)
    assert found[-30:].mean() > 0.9
    assert found[:-30].mean() < 0.001


def test_close_neighbours_are_never_thick() -> None:
    """So points whose neighbours are CLOSE need no look at how far they move."""
    corners = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    spread = np.concatenate([np.zeros((1, 3)), corners, -corners])  # the thickest there is
    reach, thin = np.linalg.norm(spread, axis=1).max(), _deviations(spread[None])[0, 0]
    assert thin == pytest.approx(reach / np.sqrt(3))
    assert (1 - SOFT) * THICK * np.sqrt(3) > CLOSE < (1 - SOFT) * BEYOND


def test_a_reach_that_is_known_changes_nothing() -> None:
    leaves = np.random.default_rng(0).random((500, 3)) * 4
    search, noise = NeighborSearch(leaves), NoiseEstimate(SIGMA, SIGMA, 1.0, True)
    anew = hold_back(search, leaves + 3 * SIGMA, noise, None, 1024)
    known = hold_back(search, leaves + 3 * SIGMA, noise, None, 1024, reach_of(search))
    np.testing.assert_array_equal(anew[0], known[0])
    np.testing.assert_array_equal(anew[1], known[1])


def test_points_on_no_surface_stay_and_are_counted() -> None:
    rng = np.random.default_rng(0)
    leaves = rng.random((500, 3)) * 4
    noise = NoiseEstimate(SIGMA, SIGMA, 1.0, True)
    points, why = hold_back(NeighborSearch(leaves), leaves + 3 * SIGMA, noise, None, 1024)
    counts = count_held_back(why)
    still = (points == leaves).all(axis=1)
    assert (why[still] == 2).all()
    assert counts["no_surface"] >= np.count_nonzero(still) > 300
    assert 0 < counts["bound"] <= 500 - counts["no_surface"]
    far = leaves + 30 * SIGMA
    assert np.array_equal(hold_back(NeighborSearch(leaves), far, noise, np.inf, 1024)[0], far)


@pytest.mark.parametrize("length", [-1, np.nan, "far"])
def test_what_is_no_length_is_refused(model: PDFlow, length: object) -> None:
    with pytest.raises(PdflowError, match="max_move"):
        Denoiser(model, max_move=length)  # type: ignore[arg-type]


def test_nothing_jumps_at_the_limits() -> None:
    rng = np.random.default_rng(0)
    leaves = rng.random((1000, 3)) * 4
    noise = NoiseEstimate(SIGMA, SIGMA, 1.0, True)
    before = hold_back(NeighborSearch(leaves), leaves + 2 * SIGMA, noise, None, 1024)[0]
    changed = leaves + rng.normal(size=leaves.shape) * 1e-9
    after = hold_back(NeighborSearch(changed), changed + 2 * SIGMA, noise, None, 1024)[0]
    held_in_part = (before != leaves).any(axis=1) & (before != leaves + 2 * SIGMA).any(axis=1)
    assert held_in_part.any()
    assert np.abs(after - before).max() < 1e-6
