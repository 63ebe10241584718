from __future__ import annotations

import torch

from pdflow.kernels.graph import nearest, patch_graph
from pdflow.kernels.graph.twin import nearest_torch


def test_nearest_equals_a_search_over_all_distances() -> None:
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(2, 11, 3, generator=generator)
    points = torch.randn(2, 30, 3, generator=generator)
    distances = (queries[:, :, None] - points[:, None]).norm(dim=-1)
    expected = distances.argsort(dim=-1)[..., :4]
    assert torch.equal(nearest(queries, points, 4), expected)


def test_patch_graph_takes_patches_of_any_dimension() -> None:
    points = torch.randn(1, 20, 5, generator=torch.Generator().manual_seed(1))
    assert torch.equal(patch_graph(points, 3), nearest_torch(points, points, 3))
    assert patch_graph(points, 0).shape == (1, 20, 0)


def test_what_is_not_finite_gets_valid_rows() -> None:
    points = torch.randn(1, 20, 3, generator=torch.Generator().manual_seed(3))
    points[0, 4], points[0, 7, 1] = float("nan"), float("inf")
    rows = nearest(points, points, 2)
    assert rows.min() >= 0
    assert rows.max() < 20
