"""What single layers promise beyond the bijection contract."""

from __future__ import annotations

import pytest
import torch

from pdflow.flow.actnorm import ActNorm
from pdflow.flow.augment import (
    AbsoluteCondition,
    Augmentation,
    ConditionalCoupling,
    EdgeCondition,
    GatedFlow,
    standard_normal_log_density,
)
from pdflow.flow.filters import FixedBinaryMask, LatentCodeConsistency, LearnableBinaryMask
from pdflow.flow.permutation import InvertibleLinear
from pdflow.flow.units import EdgeUnit
from pdflow.kernels.augmentation.twin import gather_points
from pdflow.kernels.edge import edge_max
from pdflow.kernels.graph import patch_graph


def test_actnorm_starts_with_zero_mean_and_unit_variance() -> None:
    layer = ActNorm(4).train()
    x = 3 * torch.randn(2, 50, 4) + torch.arange(4)
    y, _ = layer(x)
    assert y.mean((0, 1)).abs().max() < 1e-5
    assert (y.std((0, 1), correction=0) - 1).abs().max() < 1e-5


def test_actnorm_initialises_once_and_only_in_training() -> None:
    layer = ActNorm(2).eval()
    x = 5 + torch.randn(1, 9, 2)
    assert torch.equal(layer(x)[0], x)
    layer.train()(x)
    mu = layer.mu.clone()
    layer(10 * x)
    assert torch.equal(layer.mu, mu)
    again = ActNorm(2).train()
    again.load_state_dict(layer.state_dict())
    again(10 * x)
    assert torch.equal(again.mu, mu)


def test_inv1x1_takes_over_any_dense_matrix() -> None:
    weight = torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    layer = InvertibleLinear(6).double()
    layer.set_weight(weight)
    assert torch.allclose(layer.weight(), weight, atol=1e-12)
    assert torch.allclose(layer.inverse_weight() @ weight, torch.eye(6).double(), atol=1e-10)


def test_inv1x1_starts_orthogonal() -> None:
    weight = InvertibleLinear(8).weight()
    assert torch.allclose(weight @ weight.T, torch.eye(8), atol=1e-5)


def test_graph_layers_of_an_edge_unit_equal_the_table_written_out() -> None:
    torch.manual_seed(0)
    unit = EdgeUnit(3, 8, 2, groups=2, k=4).double()
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    graph = patch_graph(x, 5)
    near = gather_points(x, graph[..., :4])
    own = x[:, :, None].expand_as(near)
    edges = torch.cat([own, near, near - own], -1)
    for group in range(2):
        h = edges
        for layer in (unit.first, unit.second):
            h = torch.relu(h @ layer.weight[group] + layer.bias[group])
        assert torch.allclose(unit.pool(x, graph)[0][group], h.amax(2), atol=1e-12)


def test_edge_max_gives_the_same_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    centre, neighbour = torch.randn(2, 2, 3, 10, 8, dtype=torch.float64).unbind(0)
    graph = torch.randint(10, (3, 10, 4))
    weight, bias = torch.randn(2, 8, 8, dtype=torch.float64), torch.randn(2, 8).double()
    whole = edge_max(centre.requires_grad_(), neighbour, graph, weight, bias)
    monkeypatch.setattr("pdflow.kernels.edge.twin.CHUNK_EDGES", 12)
    with torch.no_grad():
        chunked = edge_max(centre, neighbour, graph, weight, bias)
    assert torch.allclose(whole, chunked, atol=1e-14)


def test_edge_unit_says_when_the_graph_is_too_small() -> None:
    with pytest.raises(ValueError, match="needs 4 neighbours"):
        EdgeUnit(3, 8, 2, 1, k=4).pool(torch.zeros(1, 5, 3), torch.zeros(1, 5, 3).long())


def test_condition_nets_equal_their_definition() -> None:
    torch.manual_seed(0)
    points = torch.randn(1, 9, 3)
    graph = patch_graph(points, 6)
    near = gather_points(points, graph[..., :4])
    absolute = AbsoluteCondition(3, 5, 7, k=4)
    h = absolute.lift(near)
    for layer in absolute.layers:
        h = torch.relu(layer(h))
    assert torch.allclose(absolute(points, graph), absolute.last(h.mean(2)), atol=1e-6)
    edge = EdgeCondition(3, 5, 7, k=4)
    own = points[:, :, None].expand_as(near)
    h = torch.cat([own, near, near - own], -1) @ edge.first.weight[0] + edge.first.bias[0]
    h = torch.relu(edge.second(torch.relu(h)))
    assert torch.allclose(edge(points, graph), edge.last(h.mean(2)), atol=1e-6)


def test_patch_graph_is_exact_and_starts_with_the_point_itself() -> None:
    points = torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(0))
    graph = patch_graph(points, 7)
    expected = torch.cdist(points.double(), points.double()).topk(7, largest=False).indices
    assert torch.equal(graph, expected)
    assert torch.equal(graph[..., 0], torch.arange(40).expand(2, 40))


def test_samples_have_the_density_of_the_chain_of_layers() -> None:
    torch.manual_seed(0)
    flow = GatedFlow([ConditionalCoupling(5, 3, 6, bool(i % 2), "batch") for i in range(3)])
    for parameter in flow.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    flow.double().eval()
    eps, features = torch.randn(2, 7, 5).double(), torch.randn(2, 7, 3).double()
    sample, negative_log_q = flow.sample(eps, features)
    expected, log_det = flow.transform(eps, features)
    torch.testing.assert_close(sample, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(negative_log_q, log_det - standard_normal_log_density(eps))


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_augmentation_takes_any_number_of_channels(channels: int) -> None:
    points = torch.randn(2, 9, 3)
    module = Augmentation(3, channels, k=4, norm="none")
    eps = torch.randn(2, 9, channels)
    augmented, log_q = module(points, patch_graph(points, 4), eps)
    assert augmented.shape == (2, 9, channels)
    assert log_q.shape == (2, 9)
    assert 0 < augmented.min() < augmented.max() < 1


def test_fixed_mask_cuts_the_last_channels() -> None:
    z = torch.ones(1, 2, 5)
    assert FixedBinaryMask(5, 2)(z)[0, 0].tolist() == [1, 1, 1, 0, 0]
    assert torch.equal(FixedBinaryMask(5, 0)(z), z)
    assert FixedBinaryMask(5, 5)(z).abs().max() == 0
    assert FixedBinaryMask(5, 2).loss(z) == 0


def test_learnable_mask_starts_as_the_paper_or_the_authors_say() -> None:
    torch.manual_seed(0)
    paper, authors = (LearnableBinaryMask(1000, init).mask() for init in ("paper", "authors"))
    assert 0 <= paper.min() < 0.01
    assert 0.99 < paper.max() <= 1
    assert 0.62 < authors.max() <= 1 - torch.exp(torch.tensor(-1.0))
    layer = LearnableBinaryMask(3, "paper")
    with torch.no_grad():
        layer.theta.copy_(torch.tensor([0.0, 1.0, 0.5]))
    assert layer.loss(torch.zeros(1)).item() == pytest.approx(0.25)


def test_latent_consistency_starts_as_identity_or_orthogonal() -> None:
    z = torch.randn(2, 3, 4)
    assert torch.equal(LatentCodeConsistency(4, "paper")(z), z)
    weight = LatentCodeConsistency(4, "authors").weight
    assert torch.allclose(weight @ weight.T, torch.eye(4), atol=1e-5)
    layer = LatentCodeConsistency(4, "paper")
    assert layer.loss(z, z + 2).item() == pytest.approx(4.0)
    with pytest.raises(ValueError, match="clean points"):
        layer.loss(z)
