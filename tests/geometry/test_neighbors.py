import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pdflow.errors import PdflowError
from pdflow.geometry import ball_query, knn
from pdflow.geometry.neighbors import NeighborSearch


def brute_force(points: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """All distances, sorted stably, so that ties stay in the order of the rows."""
    dx, dy, dz = (queries[:, None, axis] - points[None, :, axis] for axis in range(3))
    sq_all = dx * dx + dy * dy + dz * dz
    rows = np.argsort(sq_all, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(sq_all, rows, axis=1), rows


def clouds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    axis = np.arange(9.0)
    return {
        "cube": rng.random((700, 3)),
        "plane": rng.random((700, 3)) * [1, 1, 0],
        "line": np.outer(rng.random(600), [1.0, 2.0, 3.0]),
        "grid": np.stack(np.meshgrid(axis, axis, axis), -1).reshape(-1, 3),
        "duplicates": np.repeat(rng.random((30, 3)), 20, axis=0)[rng.permutation(600)],
        "all equal": np.ones((600, 3)),
        "clusters": np.concatenate([rng.normal(size=(350, 3)) * 1e-9, rng.random((350, 3))]),
        "utm": rng.random((700, 3)) * 10 + [5e5, 5e6, 0],
    }


@pytest.mark.parametrize("name", clouds())
@pytest.mark.parametrize("k", [1, 16, 64, 65, 200])
def test_equals_brute_force_with_ties_by_row(name: str, k: int) -> None:
    points = clouds()[name]
    rng = np.random.default_rng(1)
    low, high = points.min(0) - 1, points.max(0) + 1
    for queries in (points, rng.random((300, 3)) * (high - low) + low):
        sq_distances, rows = knn(points, queries, k)
        sq_expected, rows_expected = brute_force(points, queries, k)
        assert np.array_equal(rows, rows_expected)
        assert np.array_equal(sq_distances, sq_expected)
        assert rows.dtype == np.int64


few_numbers = st.integers(-2, 2).map(float) | st.floats(-1e3, 1e3)


@settings(max_examples=60, deadline=None)
@given(
    points=arrays(np.float64, st.tuples(st.integers(1, 150), st.just(3)), elements=few_numbers),
    queries=arrays(np.float64, st.tuples(st.integers(1, 20), st.just(3)), elements=few_numbers),
    data=st.data(),
)
def test_equals_brute_force_on_anything(
    points: np.ndarray, queries: np.ndarray, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(points)))
    for ours, expected in zip(
        knn(points, queries, k), brute_force(points, queries, k), strict=True
    ):
        assert np.array_equal(ours, expected)


def test_agrees_with_scipy_where_threads_are_used() -> None:
    from scipy.spatial import cKDTree

    rng = np.random.default_rng(2)
    points, queries = rng.random((20_000, 3)), rng.random((9_000, 3))
    sq_distances, rows = knn(points, queries, 8)
    distances, expected = cKDTree(points).query(queries, 8)
    assert np.array_equal(rows, expected)
    assert np.allclose(np.sqrt(sq_distances), distances, rtol=1e-14)


def test_many_duplicates_are_answered_by_the_lowest_rows() -> None:
    # Quadratic in the duplicates, this would take a minute: a tree that cannot split them does.
    points = np.concatenate([np.zeros((60_000, 3)), np.ones((60_000, 3))])
    sq_distances, rows = knn(points, points, 4)
    assert not sq_distances.any()
    assert np.array_equal(rows[:60_000], np.tile(np.arange(4), (60_000, 1)))
    assert np.array_equal(rows[60_000:], np.tile(np.arange(4) + 60_000, (60_000, 1)))


def test_no_queries_no_answers() -> None:
    sq_distances, rows = knn(np.zeros((5, 3)), np.empty((0, 3)), 2)
    assert sq_distances.shape == rows.shape == (0, 2)
    rows, counts = ball_query(np.zeros((5, 3)), np.empty((0, 3)), 1.0, 2)
    assert (rows.shape, counts.shape) == ((0, 2), (0,))


@pytest.mark.parametrize("k", [0, 6, -1])
def test_more_neighbours_than_points_are_refused(k: int) -> None:
    with pytest.raises(PdflowError, match=f"{k} neighbours among 5 points"):
        knn(np.zeros((5, 3)), np.zeros((1, 3)), k)


def test_nan_is_refused_and_named() -> None:
    with pytest.raises(PdflowError, match="Queries"):
        knn(np.zeros((5, 3)), [[0, 0, np.nan]], 1)
    with pytest.raises(PdflowError, match="Points"):
        ball_query([[0, 0, np.nan]], np.zeros((5, 3)), 1.0, 1)


@pytest.mark.parametrize("name", clouds())
@pytest.mark.parametrize("k", [3, 40])
def test_the_ball_holds_the_nearest_within_the_radius(name: str, k: int) -> None:
    points = clouds()[name]
    queries = points[::7] + 0.01
    radius = 0.3
    rows, counts = ball_query(points, queries, radius, k)
    sq_expected, rows_expected = brute_force(points, queries, k)
    inside = sq_expected <= radius**2
    assert np.array_equal(counts, inside.sum(1))
    assert np.array_equal(rows, np.where(inside, rows_expected, rows_expected[:, :1]))


def test_the_border_belongs_to_the_ball_and_an_empty_ball_names_the_nearest() -> None:
    points = np.array([[0.0, 0, 0], [2, 0, 0], [9, 0, 0]])
    rows, counts = ball_query(points, [[0.0, 0, 0], [7, 0, 0]], 2.0, 4)
    assert rows.tolist() == [[0, 1, 0, 0], [2, 2, 2, 2]]
    assert counts.tolist() == [2, 1]
    rows, counts = ball_query(points, [[5.0, 0, 0]], 1.0, 4)
    assert rows.tolist() == [[1, 1, 1, 1]]
    assert counts.tolist() == [0]


@pytest.mark.parametrize(
    ("points", "radius", "k", "said"),
    [
        (np.zeros((5, 3)), -1.0, 1, "radius -1"),
        (np.zeros((5, 3)), np.nan, 1, "radius nan"),
        (np.zeros((5, 3)), np.inf, 1, "radius inf"),
        (np.zeros((5, 3)), 1.0, 0, "0 neighbours"),
        (np.empty((0, 3)), 1.0, 1, "among 0 points"),
    ],
)
def test_impossible_balls_are_refused(points: np.ndarray, radius: float, k: int, said: str) -> None:
    with pytest.raises(PdflowError, match=said):
        ball_query(points, np.zeros((1, 3)), radius, k)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_a_subset_answers_like_a_search_of_its_own(share: float) -> None:
    rng = np.random.default_rng(0)
    points = rng.integers(0, 12, (2000, 3)).astype(float)  # many ties
    mask = rng.random(2000) < share
    part, alone = NeighborSearch(points).subset(mask), NeighborSearch(points[mask])
    assert len(part) == mask.sum()
    count = min(20, len(part))
    asked = [(points[:300], points[:300]), (points[~mask], points[~mask])]
    for mine, theirs in [*asked, (part.points, alone.points)]:
        for found, expected in (
            (part.knn(mine, count), alone.knn(theirs, count)),
            (part.ball_query(mine, 1.5, 7), alone.ball_query(theirs, 1.5, 7)),
        ):
            assert np.array_equal(found[0], expected[0])
            assert np.array_equal(found[1], expected[1])


@pytest.mark.parametrize("subset", [False, True])
def test_moved_points_are_searched_like_a_new_cloud(subset: bool) -> None:
    rng = np.random.default_rng(5)
    points = np.round(rng.random((2000, 3)), 2)
    search = NeighborSearch(points)
    if subset:
        search = search.subset(rng.random(len(points)) < 0.7)
    before = search.knn(search.points, 9)
    places = search.points + np.round(0.3 * rng.normal(size=(len(search), 3)), 2)
    for mine, own in zip(
        search.moved(places).knn(places, 9), NeighborSearch(places).knn(places, 9), strict=True
    ):
        assert np.array_equal(mine, own)
    assert np.array_equal(search.knn(search.points, 9)[1], before[1])


def test_a_subset_of_a_subset_holds_what_both_keep() -> None:
    rng = np.random.default_rng(4)
    points = rng.integers(0, 12, (2000, 3)).astype(float)
    first, second = rng.random(2000) < 0.6, rng.random(2000) < 0.6
    first[-9:] = False
    part = NeighborSearch(points).subset(first).subset(second[first])
    alone = NeighborSearch(points[first & second])
    assert part.kept.sum() == len(alone)
    for mine, theirs in zip(part.knn(part.points, 7), alone.knn(alone.points, 7), strict=True):
        assert np.array_equal(mine, theirs)


def test_a_subset_of_everything_is_the_search_itself() -> None:
    search = NeighborSearch(np.eye(3))
    assert search.subset([True] * 3) is search


def test_numbers_of_some_points_are_those_of_all() -> None:
    points = np.random.default_rng(0).random((5000, 3))
    search, asked = NeighborSearch(points), points[:, 0] > 0.7
    reach = search.reduce_knn(9, lambda sq_distances, _: sq_distances[:, -1])
    some = search.reduce_knn(9, lambda sq_distances, _: sq_distances[:, -1], asked)
    np.testing.assert_array_equal(reach, search.knn(points, 9)[0][:, -1])
    np.testing.assert_array_equal(some, np.where(asked, reach, 0))
