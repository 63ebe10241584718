from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pdflow.kernels import default_precision, runs_triton
from pdflow.kernels.edge import edge_max
from pdflow.kernels.edge.twin import edge_max_torch


def inputs(groups: int, batch: int, points: int, k: int, width: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(points + k)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    graph = torch.randint(points, (batch, points, k), generator=generator)
    features = [normal(groups, batch, points, width) for _ in range(2)]
    return [*features, graph, normal(groups, width, width) / width**0.5, normal(groups, width)]


def loop(centre: Tensor, neighbour: Tensor, graph: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The definition, edge by edge."""
    out = torch.empty_like(centre)
    for g, b, i in torch.cartesian_prod(*(torch.arange(n) for n in centre.shape[:3])):
        edges = [torch.relu(centre[g, b, i] + neighbour[g, b, j]) for j in graph[b, i]]
        out[g, b, i] = torch.stack([torch.relu(x @ weight[g] + bias[g]) for x in edges]).amax(0)
    return out


@pytest.mark.parametrize("k", [1, 4])
def test_equals_the_definition_edge_by_edge(k: int) -> None:
    arguments = inputs(2, 2, 5, k, 3)
    torch.testing.assert_close(edge_max(*arguments), loop(*arguments), rtol=1e-12, atol=1e-12)


def test_every_gradient_equals_finite_differences() -> None:
    centre, neighbour, graph, weight, bias = inputs(2, 2, 6, 3, 4)
    leaves = [x.requires_grad_() for x in (centre, neighbour, weight, bias)]
    assert torch.autograd.gradcheck(lambda c, n, w, b: edge_max(c, n, graph, w, b), leaves)


def test_int32_graphs_give_the_same() -> None:
    centre, neighbour, graph, weight, bias = inputs(1, 3, 7, 4, 8)
    expected = edge_max(centre, neighbour, graph, weight, bias)
    assert torch.equal(edge_max(centre, neighbour, graph.int(), weight, bias), expected)


def test_options_of_the_fused_kernels_change_nothing_on_the_cpu() -> None:
    arguments = inputs(1, 2, 9, 3, 32)
    assert torch.equal(edge_max(*arguments, precision="bf16"), edge_max_torch(*arguments))


def test_cpu_tensors_never_run_triton() -> None:
    assert not runs_triton(torch.zeros(1))


def test_precision_follows_torch() -> None:
    before = torch.get_float32_matmul_precision()
    try:
        found = []
        for setting in ("highest", "high", "medium"):
            torch.set_float32_matmul_precision(setting)
            found.append(default_precision(torch.float32))
            assert default_precision(torch.bfloat16) == "bf16"
    finally:
        torch.set_float32_matmul_precision(before)
    assert found == ["ieee", "tf32", "bf16"]
