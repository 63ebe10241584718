from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pdflow.kernels.edge import edge_pool
from pdflow.kernels.edge.twin import edge_max_torch
from pdflow.kernels.graph.twin import nearest_torch


class Case:
    """Random inputs, and what the twin makes of them in float64."""

    def __init__(
        self, groups: int, batch: int, points: int, k: int, width: int, device: str = "cpu"
    ) -> None:
        generator = torch.Generator().manual_seed(groups + points + k + width)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator)

        cloud = normal(batch, points, 3)
        graph = nearest_torch(cloud, cloud, min(k + 1, points))
        self.graph = graph[..., :k].to(device)
        features = [normal(groups, batch, points, width) for _ in range(2)]
        parameters = [normal(groups, width, width) / width**0.5, normal(groups, width)]
        self.leaves = [x.to(device).requires_grad_() for x in (*features, *parameters)]
        self.dout = normal(groups, batch, points, width).to(device)

    def twin(self) -> tuple[Tensor, tuple[Tensor, ...]]:
        leaves = [x.detach().double().requires_grad_() for x in self.leaves]
        centre, neighbour, weight, bias = leaves
        out = edge_max_torch(centre, neighbour, self.graph, weight, bias)
        return out.detach(), torch.autograd.grad(out, leaves, self.dout.double())

    def fused(self, precision: str = "ieee") -> tuple[Tensor, tuple[Tensor, ...]]:
        from pdflow.kernels.edge.triton_autograd import EdgeMax

        centre, neighbour, weight, bias = self.leaves
        out = EdgeMax.apply(centre, neighbour, self.graph, weight, bias, precision)
        return out.detach(), torch.autograd.grad(out, self.leaves, self.dout.to(out.dtype))


def relative_error(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).abs().max() / expected.abs().max()).item()


SHAPES = [
    pytest.param(1, 1, 37, 5, 32, id="odd-points"),
    pytest.param(2, 2, 33, 4, 32, id="groups-and-patches"),
    pytest.param(1, 2, 20, 1, 64, id="one-neighbour"),
    pytest.param(1, 1, 70, 40, 32, id="more-than-32-neighbours"),
    pytest.param(2, 1, 40, 16, 64, id="width-64"),
]


@pytest.mark.parametrize(("groups", "batch", "points", "k", "width"), SHAPES)
def test_values_and_gradients_equal_the_twin(
    device: str, groups: int, batch: int, points: int, k: int, width: int
) -> None:
    case = Case(groups, batch, points, k, width, device)
    expected, expected_gradients = case.twin()
    found, gradients = case.fused("ieee")
    assert relative_error(found, expected) < 1e-6
    errors = [relative_error(*pair) for pair in zip(gradients, expected_gradients, strict=True)]
    assert max(errors) < 1e-5


def test_a_neighbour_that_is_repeated_counts_once(device: str) -> None:
    case = Case(1, 1, 12, 3, 32, device)
    case.graph = torch.cat([case.graph, case.graph[..., :1].expand(-1, -1, 4)], -1)
    expected, expected_gradients = case.twin()
    found, gradients = case.fused()
    assert relative_error(found, expected) < 1e-6
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        assert relative_error(gradient, expected_gradient) < 1e-5


def test_a_slice_of_a_larger_graph_is_read_in_place(device: str) -> None:
    case = Case(1, 2, 21, 6, 32, device)
    case.graph = case.graph[..., :4]
    assert not case.graph.is_contiguous()
    assert relative_error(case.fused()[0], case.twin()[0]) < 1e-6


def test_closed_channels_carry_no_gradient(device: str) -> None:
    case = Case(1, 1, 10, 3, 32, device)
    with torch.no_grad():
        case.leaves[3].fill_(-1e3)
    found, gradients = case.fused()
    assert not found.any()
    assert not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize(
    ("dtype", "precision"), [("fp32", "tf32"), ("bf16", "tf32"), ("bf16",) * 2]
)
def test_low_precision_rounds_but_does_not_err(device: str, dtype: str, precision: str) -> None:
    if precision == "bf16" and device == "cpu":
        pytest.skip("Triton's interpreter has no bf16 products")
    case = Case(1, 1, 24, 8, 32, device)
    if dtype == "bf16":
        features = [x.detach().bfloat16().requires_grad_() for x in case.leaves[:2]]
        case.leaves = [*features, *case.leaves[2:]]
    expected, expected_gradients = case.twin()
    found, gradients = case.fused(precision)
    assert found.dtype == gradients[0].dtype == gradients[1].dtype == case.leaves[0].dtype
    assert relative_error(found, expected) < 2e-2
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        assert (gradient - expected_gradient).norm() < 0.1 * expected_gradient.norm()


def test_inference_gives_the_same_and_keeps_nothing(device: str) -> None:
    from pdflow.kernels.edge import triton_max
    from pdflow.kernels.edge.triton_edges import Edges

    case = Case(2, 1, 19, 5, 32, device)
    centre, neighbour, weight, bias = (x.detach() for x in case.leaves)
    edges = Edges(centre, neighbour, case.graph, weight)
    out, choice, active = triton_max.forward(edges, bias, "ieee", with_choice=False)
    assert relative_error(out, case.twin()[0]) < 1e-6  # three tf32 products are as good as fp32
    assert choice.numel() == active.numel() == 0


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(
    ("groups", "channels", "inputs"),
    [
        pytest.param(1, 5, 3, id="some-channels"),
        pytest.param(2, 9, 9, id="all-channels-two-groups"),
        pytest.param(1, 90, 70, id="two-blocks-of-channels"),
        pytest.param(1, 64, 64, id="a-whole-block-of-channels"),
    ],
)
def test_the_first_layer_and_its_gradients_equal_the_twin(
    device: str, groups: int, channels: int, inputs: int, flip: bool
) -> None:
    from pdflow.kernels.edge.triton_autograd import EdgePool

    generator = torch.Generator().manual_seed(channels)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(device).requires_grad_()

    x = normal(2, 40, channels)
    first = normal(groups, 3 * inputs, 32), normal(groups, 32)
    second = normal(groups, 32, 32), normal(groups, 32)
    graph = nearest_torch(x.detach().cpu(), x.detach().cpu(), 6).to(device)
    found, seen = EdgePool.apply(x, graph, *first, *second, inputs, flip, "ieee")
    leaves = [t.detach().double().requires_grad_() for t in (x, *first, *second)]
    expected, _ = edge_pool(leaves[0], graph, leaves[1:3], leaves[3:], inputs=inputs, flip=flip)
    assert relative_error(found, expected) < 1e-6
    dout = torch.randn(found.shape, generator=generator).to(device)
    more = torch.randn(x.shape, generator=generator).to(device)
    for found_too, expected_too, d in (
        ([found], [expected], [dout]),
        ([found, seen], [expected, leaves[0]], [dout, more]),
    ):
        gradients = torch.autograd.grad(found_too, (x, *first, *second), d, retain_graph=True)
        double = [value.double() for value in d]
        exact = torch.autograd.grad(expected_too, leaves, double, retain_graph=True)
        for gradient, expected_gradient in zip(gradients, exact, strict=True):
            assert relative_error(gradient, expected_gradient) < 1e-5
