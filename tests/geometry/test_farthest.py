import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pdflow.errors import PdflowError
from pdflow.geometry import farthest_point_sampling
from pdflow.geometry.farthest import farthest_points_of_groups
from pdflow.geometry.neighbors import NeighborSearch


def brute_force(points: np.ndarray, count: int, start: int = 0) -> np.ndarray:
    """Greedy, all distances at every step; of equals the lowest row (that is numpy's argmax)."""
    x, y, z = points.T
    sq_near = np.full(len(points), np.inf)
    samples = [start]
    while len(samples) < count:
        last = samples[-1]
        dx, dy, dz = x - x[last], y - y[last], z - z[last]
        sq_near = np.minimum(sq_near, dx * dx + dy * dy + dz * dz)
        sq_near[last] = -1
        samples.append(int(np.argmax(sq_near)))
    return np.array(samples)


def clouds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    sphere = rng.normal(size=(3000, 3))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    axis = np.arange(12.0)
    return {
        "cube": rng.random((3000, 3)),
        "sphere": sphere,
        "grid": np.stack(np.meshgrid(axis, axis, axis), -1).reshape(-1, 3),
        "line": np.outer(rng.random(2000), [1.0, 2.0, 3.0]),
        "sorted line": np.outer(np.arange(2000.0), [0.0, 1.0, 0.0]),
        "clusters": np.concatenate(
            [rng.normal(size=(1000, 3)) * 1e-7, rng.normal(size=(1000, 3)) + 50, [[1e6, 0, 0]]]
        ),
        "duplicates": np.repeat(rng.random((40, 3)), 50, axis=0)[rng.permutation(2000)],
        "all equal": np.ones((1500, 3)),
        "utm": rng.random((2000, 3)) * [100, 100, 10] + [5e5, 5e6, 0],
        "coarse": rng.integers(0, 6, (3000, 3)).astype(float),
    }


@pytest.mark.parametrize("name", clouds())
def test_equals_brute_force_row_by_row(name: str) -> None:
    points = clouds()[name]
    for count, start in ((600, 0), (len(points), len(points) // 3)):
        expected = brute_force(points, count, start)
        assert np.array_equal(farthest_point_sampling(points, count, start), expected)


@settings(max_examples=60, deadline=None)
@given(
    points=arrays(
        np.float64,
        st.tuples(st.integers(1, 300), st.just(3)),
        elements=st.integers(-3, 3).map(float) | st.floats(-1e6, 1e6),
    ),
    data=st.data(),
)
def test_equals_brute_force_on_anything(points: np.ndarray, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(points)))
    start = data.draw(st.integers(0, len(points) - 1))
    expected = brute_force(points, count, start)
    assert np.array_equal(farthest_point_sampling(points, count, start), expected)


def test_all_points_come_as_a_permutation_with_duplicates_last() -> None:
    rng = np.random.default_rng(1)
    distinct = rng.random((500, 3))
    points = np.concatenate([distinct, distinct[:100]])
    samples = farthest_point_sampling(points, len(points))
    assert sorted(samples) == list(range(len(points)))
    assert len(np.unique(points[samples[:500]], axis=0)) == 500


def test_a_shorter_sampling_is_the_start_of_a_longer_one() -> None:
    points = np.random.default_rng(2).random((2000, 3))
    longer = farthest_point_sampling(points, 700, start=9)
    assert np.array_equal(farthest_point_sampling(points, 300, start=9), longer[:300])


@pytest.mark.parametrize("order", ["C", "F"])
def test_layout_and_dtype_do_not_matter(order: str) -> None:
    points = np.random.default_rng(3).random((300, 3)).astype(np.float32)
    expected = brute_force(points.astype(np.float64), 50)
    laid_out = np.asarray(points, order=order)  # type: ignore[call-overload]
    samples = farthest_point_sampling(laid_out, 50)
    assert samples.dtype == np.int64
    assert np.array_equal(samples, expected)
    assert np.array_equal(farthest_point_sampling(points.tolist(), 50), expected)


def test_none_of_none() -> None:
    assert farthest_point_sampling(np.empty((0, 3)), 0).shape == (0,)
    assert farthest_point_sampling(np.zeros((1, 3)), 1).tolist() == [0]


@pytest.mark.parametrize(
    ("count", "start", "said"),
    [
        (11, 0, "11 of 10 points"),
        (-1, 0, "-1 of 10"),
        (3, 10, "no point 10"),
        (3, -1, "no point -1"),
    ],
)
def test_impossible_requests_are_refused(count: int, start: int, said: str) -> None:
    with pytest.raises(PdflowError, match=said):
        farthest_point_sampling(np.zeros((10, 3)), count, start)


def test_nan_is_refused() -> None:
    with pytest.raises(PdflowError, match="row 1"):
        farthest_point_sampling([[0, 0, 0], [np.nan, 0, 0]], 1)


def test_importing_the_packages_loads_neither_numba_nor_torch() -> None:
    script = (
        "import sys, pdflow, pdflow.geometry, pdflow.noise\n"
        "from pdflow.noise import KINDS, add_noise\n"
        "from pdflow.geometry import unit_sphere, sample_mesh\n"
        "print([m for m in ('numba', 'torch', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_counts_that_are_no_integers_are_told_by_python() -> None:
    for count, start in ((1.5, 0), (2, 0.5)):
        with pytest.raises(TypeError, match="integer"):
            farthest_point_sampling(np.eye(3), count, start)  # type: ignore[arg-type]
    assert len(farthest_point_sampling(np.eye(3), np.uint8(2), np.int16(1))) == 2


@pytest.mark.parametrize("share", [0.05, 0.6, 1.0])
def test_a_search_gives_what_its_points_give(share: float) -> None:
    rng = np.random.default_rng(0)
    points = rng.integers(0, 9, (700, 3)).astype(float)  # many ties and duplicates
    mask = rng.random(700) < share
    part = NeighborSearch(points).subset(mask)
    for count in (1, 10, len(part)):
        expected = farthest_point_sampling(points[mask], count)
        assert np.array_equal(farthest_point_sampling(part, count), expected)


def test_groups_are_sampled_as_if_each_were_alone() -> None:
    rng = np.random.default_rng(4)
    points = rng.random((4000, 3)).round(2)
    rows, starts = rng.permutation(4000), np.array([0, 1, 1, 700, 2900, 4000])
    counts = np.array([1, 0, 0, 40, 1100])
    expected = [
        rows[first:last][farthest_point_sampling(points[rows[first:last]], count)]
        for first, last, count in zip(starts, starts[1:], counts, strict=False)
    ]
    found = farthest_points_of_groups(points, rows, starts, counts)
    assert np.array_equal(found, np.concatenate(expected))


def test_no_groups_give_no_samples() -> None:
    none = np.empty(0, np.int64)
    assert len(farthest_points_of_groups(np.zeros((0, 3)), none, np.zeros(1, int), none)) == 0
