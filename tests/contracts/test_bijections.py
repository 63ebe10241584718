"""Every bijection keeps the contract: exact inverse, exact log-determinant, equivariance.

All in float64 with N != C, because a log-determinant that counts channels for points passes
where the two are equal.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pdflow.config import FlowConfig
from pdflow.flow.actnorm import ActNorm
from pdflow.flow.augment import ConditionalAffine, ConditionalCoupling
from pdflow.flow.bijection import Bijection, Chain, Sigmoid
from pdflow.flow.coupling import Coupling
from pdflow.flow.permutation import InvertibleLinear, Permutation, Reverse
from pdflow.flow.units import EdgeUnit, LinearUnit
from pdflow.model import PDFlow

B, N, C, K, F = 2, 7, 5, 4, 3


def _flow(coupling: str) -> Chain:
    config = FlowConfig(
        edge_neighbours=(K, 0), augment_dims=C - 3, hidden=6, coupling=coupling, masked_dims=0
    )
    return PDFlow(config).flow


BIJECTIONS: dict[str, Callable[[], Bijection]] = {
    "actnorm": lambda: ActNorm(C),
    "reverse": Reverse,
    "random": lambda: Permutation.random(C),
    "inv1x1": lambda: InvertibleLinear(C),
    "sigmoid": Sigmoid,
    "affine edge coupling": lambda: Coupling(C, EdgeUnit(3, 6, 2, 2, K), 1.9),
    "affine linear coupling": lambda: Coupling(C, LinearUnit(3, 6, 2, 2), 1.9),
    "additive edge coupling": lambda: Coupling(C, EdgeUnit(3, 6, 2, 1, K), 1.9),
    "additive linear coupling": lambda: Coupling(C, LinearUnit(3, 6, 2, 1), 1.9),
    "conditional coupling, first half kept": lambda: ConditionalCoupling(C, F, 6, True, "none"),
    "conditional coupling, second half kept": lambda: ConditionalCoupling(C, F, 6, False, "none"),
    "conditional coupling with batch norm": lambda: ConditionalCoupling(C, F, 6, True, "batch"),
    "conditional affine": lambda: ConditionalAffine(C, F),
    "chain": lambda: Chain([InvertibleLinear(C), ActNorm(C), Reverse()]),
    "affine flow": lambda: _flow("affine"),
    "additive flow": lambda: _flow("additive"),
}


@pytest.fixture(params=BIJECTIONS, ids=str)
def bijection(request: pytest.FixtureRequest) -> Bijection:
    """A bijection with random parameters, ready for evaluation."""
    torch.manual_seed(5)
    made = BIJECTIONS[request.param]().double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for module in made.modules():
            if isinstance(module, torch.nn.BatchNorm1d):
                module.running_mean.normal_()  # type: ignore[union-attr]
                module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return made


@pytest.fixture
def x() -> Tensor:
    return torch.randn(B, N, C, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def context_of(bijection: Bijection) -> Tensor:
    """A graph for couplings on points, features for conditional couplings."""
    generator = torch.Generator().manual_seed(2)
    if isinstance(bijection, (ConditionalAffine, ConditionalCoupling)):
        return torch.randn(B, N, F, dtype=torch.float64, generator=generator)
    return torch.stack([torch.randperm(N, generator=generator)[:K] for _ in range(B * N)]).view(
        B, N, K
    )


def test_inverse_undoes_forward(bijection: Bijection, x: Tensor) -> None:
    context = context_of(bijection)
    y, log_det = bijection(x, context)
    back, back_log_det = bijection.inverse(y, context)
    assert log_det.shape == back_log_det.shape == (B,)
    assert (back - x).abs().max() < 1e-10
    assert (log_det + back_log_det).abs().max() < 1e-10


def test_log_det_is_that_of_the_full_jacobian(bijection: Bijection, x: Tensor) -> None:
    context = context_of(bijection)
    _, log_det = bijection(x, context)
    for b in range(B):
        jacobian = torch.autograd.functional.jacobian(
            lambda patch, b=b: bijection(patch.view(1, N, C), context[b : b + 1])[0].flatten(),
            x[b].flatten(),
        )
        expected = torch.linalg.slogdet(jacobian).logabsdet
        assert abs(log_det[b] - expected) < 1e-8


def test_points_may_come_in_any_order(bijection: Bijection, x: Tensor) -> None:
    context = context_of(bijection)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(3))
    moved = context[:, order]
    if not isinstance(bijection, (ConditionalAffine, ConditionalCoupling)):
        moved = torch.argsort(order)[moved]
    y, log_det = bijection(x, context)
    y_moved, log_det_moved = bijection(x[:, order], moved)
    assert (y_moved - y[:, order]).abs().max() < 1e-12
    assert (log_det - log_det_moved).abs().max() < 1e-10


def test_patches_do_not_see_each_other(bijection: Bijection, x: Tensor) -> None:
    context = context_of(bijection)
    together, log_det = bijection(x, context)
    alone, log_det_alone = bijection(x[1:], context[1:])
    assert (together[1:] - alone).abs().max() < 1e-12
    assert (log_det[1:] - log_det_alone).abs().max() < 1e-10


def test_every_parameter_gets_a_gradient(bijection: Bijection, x: Tensor) -> None:
    if not list(bijection.parameters()):
        pytest.skip("has no parameters")
    y, log_det = bijection(x, context_of(bijection))
    (y.square().sum() + log_det.sum()).backward()
    for name, parameter in bijection.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_state_survives_save_and_load(bijection: Bijection, x: Tensor) -> None:
    context = context_of(bijection)
    bijection.train()(x, context)  # lets actnorm and batch norm learn something
    bijection.eval()
    expected, _ = bijection(x, context)
    buffer = io.BytesIO()
    torch.save(bijection.state_dict(), buffer)
    buffer.seek(0)
    for name, make in BIJECTIONS.items():
        fresh = make().double()
        if fresh.state_dict().keys() == bijection.state_dict().keys() and type(fresh) is type(
            bijection
        ):
            try:
                fresh.load_state_dict(torch.load(buffer, weights_only=True))
            except RuntimeError:
                buffer.seek(0)
                continue
            buffer.seek(0)
            if getattr(fresh, "keep_first", None) != getattr(bijection, "keep_first", None):
                continue
            fresh.train()  # an initialised actnorm must not initialise again
            for module in fresh.modules():
                if isinstance(module, torch.nn.BatchNorm1d):
                    module.eval()
            assert torch.equal(fresh(x, context)[0], expected), name
            return
    raise AssertionError("no fresh bijection takes this state")


def test_sigmoid_keeps_to_the_unit_interval() -> None:
    y, _ = Sigmoid()(torch.linspace(-30, 30, 12, dtype=torch.float64).view(1, 4, 3))
    assert 0 < y.min() < y.max() < 1


def test_every_bijection_is_under_contract() -> None:
    made = {type(make()) for make in BIJECTIONS.values()}
    assert set(Bijection.__subclasses__()) <= made
