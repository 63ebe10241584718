from __future__ import annotations

import pytest
import torch

from pdflow.kernels.augmentation.twin import neighbour_mean_torch
from pdflow.kernels.augmentation.weights import ConditionWeights


@pytest.mark.parametrize(("dims", "width", "features", "k"), [(3, 32, 64, 5), (2, 32, 32, 1)])
def test_values_and_gradients_equal_the_twin(
    device: str, dims: int, width: int, features: int, k: int
) -> None:
    from pdflow.kernels.augmentation.triton_condition import NeighbourMean

    generator = torch.Generator().manual_seed(dims)
    shapes = [(2, 41, dims)]
    for outputs, inputs in ((width, dims), (width, width), (width, width), (features, width)):
        shapes += [(outputs, inputs), (outputs,)]
    leaves = [torch.randn(s, generator=generator).to(device).requires_grad_() for s in shapes]
    graph = torch.randint(41, (2, 41, k + 3), generator=generator).to(device)[..., :k]
    double = [leaf.detach().double().requires_grad_() for leaf in leaves]
    found = NeighbourMean.apply(leaves[0], graph, "ieee", *leaves[1:])
    expected = neighbour_mean_torch(double[0], graph, ConditionWeights(*double[1:]))
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
    d = torch.randn(found.shape, generator=generator).to(device)
    gradients = torch.autograd.grad(found, leaves, d)
    exact = torch.autograd.grad(expected, double, d.double())
    for a, b in zip(gradients, exact, strict=True):
        assert (a - b).abs().max() < 1e-5 * b.abs().max()


def test_a_graph_in_any_layout_gives_the_same(device: str) -> None:
    from pdflow.kernels.augmentation.triton_condition import NeighbourMean

    generator = torch.Generator().manual_seed(0)
    shapes = [(32, 3), (32,), (32, 32), (32,), (32, 32), (32,), (32, 32), (32,)]
    weights = [torch.randn(s, generator=generator).to(device) for s in shapes]
    points = torch.randn(2, 9, 3, generator=generator).to(device)
    graph = torch.randint(9, (2, 9, 9), generator=generator).to(device)[:, :, ::3]
    results = [
        NeighbourMean.apply(points, g, "ieee", *weights) for g in (graph, graph.contiguous())
    ]
    assert torch.equal(*results)
