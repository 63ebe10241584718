from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pdflow.flow.actnorm import ActNorm
from pdflow.flow.bijection import Bijection, Chain
from pdflow.flow.block import Block, Flow
from pdflow.flow.coupling import Coupling
from pdflow.flow.permutation import InvertibleLinear, Permutation, Reverse
from pdflow.flow.units import EdgeUnit, LinearUnit
from pdflow.kernels.graph import patch_graph

CHANNELS = 7


def block(mixing: Bijection, groups: int, k: int = 0) -> Block:
    unit = EdgeUnit(4, 8, 3, groups, k) if k else LinearUnit(4, 8, 3, groups)
    second = LinearUnit(4, 8, 3, groups)
    norm = ActNorm(CHANNELS)
    torch.nn.init.normal_(norm.mu)
    torch.nn.init.normal_(norm.sigma, std=0.3)
    couplings = (Coupling(CHANNELS, net, 1.9) for net in (unit, second))
    return Block(mixing, norm, *couplings)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 12, CHANNELS, dtype=torch.float64)


@pytest.mark.parametrize("groups", [1, 2], ids=["additive", "affine"])
@pytest.mark.parametrize("mixing", ["inv1x1", "permutations"])
def test_a_flow_is_the_chain_of_its_layers(x: Tensor, groups: int, mixing: str) -> None:
    torch.manual_seed(0)
    if mixing == "inv1x1":
        mixings: list[Bijection] = [InvertibleLinear(CHANNELS), InvertibleLinear(CHANNELS)]
    else:
        mixings = [Permutation.random(CHANNELS), Reverse()]
    flow = Flow([block(mixings[0], groups, k=4), block(mixings[1], groups)]).double().eval()
    graph = patch_graph(x[..., :3], 4)
    chain = Chain(list(flow))
    for found, expected in (
        (flow.transform(x, graph), chain.transform(x, graph)),
        (flow.untransform(x, graph), chain.untransform(x, graph)),
    ):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_the_first_batch_sets_the_actnorms_of_all_blocks(x: Tensor) -> None:
    torch.manual_seed(0)
    flow = Flow([block(InvertibleLinear(CHANNELS), 2) for _ in range(3)]).double().train()
    first = flow.transform(x, None)
    assert all(part.norm.initialised for part in flow)
    again = flow.transform(x, None)
    torch.testing.assert_close(again, first, rtol=1e-10, atol=1e-10)
    y = x
    for part in flow:
        mixed = part.mixing.transform(y, None)[0]
        normalised = part.norm.transform(mixed, None)[0]
        assert normalised.mean((0, 1)).abs().max() < 1e-10
        y = part.transform(y, None)[0]


def test_coordinates_survive_both_ways_in_float32() -> None:
    torch.manual_seed(0)
    flow = Flow([block(InvertibleLinear(CHANNELS), 2) for _ in range(8)]).eval()
    x = torch.randn(1, 50, CHANNELS)
    with torch.no_grad():
        back = flow.untransform(flow.transform(x, None)[0], None)[0]
    assert (back - x).abs().max() < 1e-4
