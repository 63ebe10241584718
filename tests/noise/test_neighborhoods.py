from __future__ import annotations

import numpy as np

from pdflow.geometry.neighbors import knn
from pdflow.noise.neighborhoods import (
    FLOOR,
    NEIGHBORS,
    REACH_SCALE,
    describe,
    describe_neighbors,
)

Array = np.ndarray


def rough_plane(count: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (count, 3)) * [1, 1, 0.02]


def test_does_not_change_with_scale_place_or_rotation() -> None:
    points = rough_plane(1000)
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    moved = 40 * points @ turn + [3, -2, 9]
    one, other = describe(points, points[:50]), describe(moved, moved[:50])
    np.testing.assert_allclose(other.description, one.description, atol=1e-8)
    np.testing.assert_allclose(other.reach, 40 * one.reach)
    np.testing.assert_allclose(other.nearest, 40 * one.nearest)


def test_a_quadratic_surface_leaves_no_residual() -> None:
    """The columns of the largest scale end with the residual, its kurtosis and the bend."""
    u, v = np.random.default_rng(0).uniform(-1, 1, (2, 4000))
    points = np.stack([u, v, 0.2 * u * u - 0.1 * v * v], axis=1)
    queries = points[np.hypot(u, v) < 0.1]
    last = np.exp(describe(points, queries).description[:, -9:])
    thickness, residual, kurtosis = last[:, 1], last[:, -3], last[:, -2]
    assert (thickness > 10 * FLOOR).all()
    assert (residual < 2 * FLOOR).all()
    assert (np.abs(kurtosis - 3) < 1.5).all()


def test_residuals_have_the_deviation_of_the_noise() -> None:
    rng = np.random.default_rng(1)
    points = rng.uniform(-1, 1, (4000, 3)) * [1, 1, 0] + 0.01 * rng.standard_normal((4000, 3))
    queries = points[np.abs(points).max(axis=1) < 0.5]
    seen = describe(points, queries)
    residual = np.exp(seen.description[:, -3]) * seen.reach
    assert abs(np.median(residual) / 0.01 - 1) < 0.05


def test_the_reach_holds_its_number_of_points() -> None:
    """Of those in the outer quarter of the disc, half count on average."""
    points = rough_plane(2000)
    seen = describe(points, points[:100])
    sq_distances = knn(points, points[:100], 60)[0]
    inside = (sq_distances < seen.reach[:, None] ** 2).sum(axis=1)
    assert abs(inside.mean() - REACH_SCALE) < 1.5
    assert np.abs(inside - REACH_SCALE).max() <= 8


def test_points_without_weight_do_not_count() -> None:
    points = rough_plane(1500)
    weights = (np.arange(1500) % 3 > 0).astype(float)
    queries = points[weights > 0][:40]
    near = knn(points, queries, 2 * NEIGHBORS)[1]
    some = describe_neighbors(points, near, queries, weights)
    alone = describe(points[weights > 0], queries)
    np.testing.assert_allclose(some.reach, alone.reach)
    np.testing.assert_allclose(some.description, alone.description, atol=1e-9)


def test_changes_smoothly_where_a_point_enters() -> None:
    """A point that crosses the border of a neighbourhood hardly changes what describes it."""
    points = rough_plane(1200)
    query = points[:1]
    reach = describe(points, query).reach[0]
    direction = np.array([0.6, 0.8, 0.0])
    rows = []
    for share in (1 - 1e-6, 1 + 1e-6):
        points[1] = query[0] + share * reach * direction
        rows.append(describe(points, query).description[0])
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-4)


def test_small_clouds_are_described_as_a_whole() -> None:
    points = rough_plane(40)
    seen = describe(points, points)
    assert np.isfinite(seen.description).all()
