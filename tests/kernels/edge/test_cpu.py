from __future__ import annotations

import numpy as np
import pytest
import torch

from pdflow.kernels.edge.cpu import EdgeMax, neighbour_mean
from pdflow.kernels.edge.twin import edge_max_torch


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[-1]).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("k", [1, 5, 8, 13, 16])
@pytest.mark.parametrize("width", [3, 16, 40, 64, 70])
def test_equals_the_torch_twin(k: int, width: int) -> None:
    points = 50
    centre, neighbour = normal(2, points, width)
    weight, bias = normal(width, width) / width**0.5, normal(width)
    graph = np.random.default_rng(k).integers(points, size=(points, 16))
    run = EdgeMax(weight, bias)
    features = np.zeros((points, 2 * run.width), np.float32)
    features[:, :width] = centre
    features[:, run.width : run.width + width] = neighbour
    result = run(features, graph, k)
    arguments = (centre[None, None], neighbour[None, None], graph[None, :, :k], weight[None])
    twin = edge_max_torch(*map(torch.from_numpy, arguments), torch.from_numpy(bias)[None])
    np.testing.assert_allclose(result[:, :width], twin[0, 0].numpy(), rtol=1e-5, atol=1e-5)
    assert not result[:, width:].any()


def test_neighbour_mean() -> None:
    features = normal(20, 7)
    graph = np.random.default_rng(0).integers(20, size=(20, 6))
    result = neighbour_mean(features, graph, 4)
    np.testing.assert_allclose(result, features[graph[:, :4]].mean(1), rtol=1e-5, atol=1e-6)
