"""Passes through one network give the gradients that plain calls give."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pdflow.flow.actnorm import ActNorm
from pdflow.train.compute.gradients import separate_passes


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 2)

    def there(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(torch.relu(self.first(x)))
        return result

    def half(self, x: Tensor) -> Tensor:
        return x @ self.first.weight.T


def test_gradients_equal_those_of_plain_calls() -> None:
    torch.manual_seed(0)
    network, x = Network(), torch.randn(5, 3)
    (
        network.there(x).sum() + network.there(2 * x).square().sum() + network.half(x).sum()
    ).backward()
    expected = [p.grad for p in network.parameters()]
    network.zero_grad()
    one, two, three = separate_passes(network, 3)
    loss = one("there", x).sum() + two("there", 2 * x).square().sum() + three("half", x).sum()
    loss.backward()
    for parameter, gradient in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_a_parameter_that_no_pass_used_has_no_gradient() -> None:
    network = Network()
    _, two, three = separate_passes(network, 3)
    (two("half", torch.ones(1, 3)) + three("half", torch.ones(1, 3))).sum().backward()
    assert network.second.weight.grad is None
    torch.testing.assert_close(network.first.weight.grad, torch.full((3, 3), 2.0))


def test_without_gradients_nothing_is_replaced() -> None:
    network, x = Network(), torch.randn(2, 3)
    with torch.no_grad():
        [run] = separate_passes(network, 1)
        assert torch.equal(run("there", x), network.there(x))


def test_a_first_batch_sets_the_norms_of_the_network_itself() -> None:
    norm = ActNorm(2).train()
    x = 5 + torch.randn(1, 20, 2)
    [run] = separate_passes(norm, 1)
    y, _ = run("transform", x, None)
    assert bool(norm.initialised)
    assert torch.equal(norm.mu, x.mean((0, 1)))
    assert y.mean().abs() < 1e-5
