from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.neighbors import knn
from pdflow.kernels.graph.cpu import patch_graph


def shapes(points: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(points)
    surface = rng.normal(size=(points, 3))
    surface /= np.linalg.norm(surface, axis=1)[:, None]
    return {
        "surface": surface,
        "solid": rng.normal(size=(points, 3)),
        "line": rng.normal(size=(points, 1)) * np.array([1.0, 2.0, 3.0]),
        "one place": np.full((points, 3), 0.3),
        "many ties": rng.integers(0, 4, size=(points, 3)).astype(float),
        "uneven density": rng.normal(size=(points, 3)) ** 5,
        "two far parts": surface + rng.integers(0, 2, size=(points, 1)) * 1e6,
        "far from the origin": surface + 1e7,
    }


@pytest.mark.parametrize(("points", "k"), [(1, 1), (5, 5), (33, 32), (100, 100), (300, 16)])
def test_equals_the_search_in_trees(points: int, k: int) -> None:
    for name, cloud in shapes(points).items():
        expected = knn(cloud, cloud, k)[1]
        assert np.array_equal(patch_graph(cloud, k), expected), name


def test_float32_patches_are_searched_exactly() -> None:
    cloud = shapes(200)["surface"].astype(np.float32)
    assert np.array_equal(patch_graph(cloud, 20), knn(cloud, cloud, 20)[1])


def test_no_neighbours() -> None:
    assert patch_graph(np.zeros((4, 3)), 0).shape == (4, 0)
