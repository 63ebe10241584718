import numpy as np
import pytest

from pdflow.geometry import kdtree
from pdflow.geometry.kdtree import KdTree, build_tree, leaf_range, refit_tree


def clouds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "one": np.ones((1, 3)),
        "cube": rng.random((1001, 3)),
        "sorted": np.outer(np.arange(777.0), [1.0, 0.0, -1.0]),
        "two sites": rng.integers(0, 2, (900, 1)) * np.ones((1, 3)),
        "all equal": np.zeros((640, 3)),
        "one far away": np.concatenate([np.zeros((500, 3)), [[1e9, 0, 0]]]),
    }


@pytest.mark.parametrize("name", clouds())
@pytest.mark.parametrize("leaf_size", [2, 7, 64])
def test_leaves_are_full_ordered_and_tightly_boxed(name: str, leaf_size: int) -> None:
    points = clouds()[name]
    require_full_ordered_and_tightly_boxed(build_tree(points, leaf_size), points, leaf_size)


@pytest.mark.parametrize("name", clouds())
def test_a_refit_keeps_the_leaves_and_fits_their_boxes(name: str) -> None:
    points = clouds()[name]
    tree = build_tree(points, 16)
    moved = points + np.random.default_rng(3).normal(size=points.shape)
    fitted = refit_tree(tree, moved)
    assert np.array_equal(fitted.order, tree.order)
    assert np.array_equal(tree.xyz, points[tree.order].T)  # the tree itself stays as it was
    require_full_ordered_and_tightly_boxed(fitted, moved, 16)


def require_full_ordered_and_tightly_boxed(
    tree: KdTree, points: np.ndarray, leaf_size: int
) -> None:
    leaves = 1 << tree.depth
    assert sorted(tree.order) == list(range(len(points)))
    assert np.array_equal(tree.xyz, points[tree.order].T)
    end = 0
    for leaf in range(leaves, 2 * leaves):
        first, last = leaf_range(tree, leaf)
        assert first == end
        assert leaf_size // 2 <= last - first <= leaf_size or leaves == 1
        rows = tree.order[first:last]
        assert (np.diff(rows) > 0).all()
        assert np.array_equal(tree.low[:, leaf], points[rows].min(0))
        assert np.array_equal(tree.high[:, leaf], points[rows].max(0))
        end = last
    assert end == len(points)
    for node in range(1, leaves):
        assert np.array_equal(tree.low[:, node], tree.low[:, 2 * node : 2 * node + 2].min(1))
        assert np.array_equal(tree.high[:, node], tree.high[:, 2 * node : 2 * node + 2].max(1))


def test_siblings_are_split_at_the_median_of_the_longest_side() -> None:
    points = np.random.default_rng(1).random((1000, 3)) * [1, 5, 2]
    tree = build_tree(points, 64)
    assert tree.high[1, 2] <= tree.low[1, 3]
    assert tree.low[1, 3] == np.sort(points[:, 1])[500]


def test_threads_do_not_change_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.round(np.random.default_rng(2).normal(size=(5000, 3)), 1)
    alone = build_tree(points, 16)
    monkeypatch.setattr(kdtree, "_THREADED_POINTS", 16)
    together = build_tree(points, 16)
    assert alone.depth == together.depth
    for one, other in zip(alone[1:], together[1:], strict=True):
        assert np.array_equal(one, other)
