from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from pdflow.kernels.coupling.direction import INVERSE, Direction
from pdflow.kernels.coupling.twin import couple_torch

FACTOR = 2 * 1.9 / math.pi


class Case:
    """Random inputs of a coupling, and its value and gradients by the twin or the kernels."""

    def __init__(self, groups: int, channels: int, deep: bool, device: str) -> None:
        generator = torch.Generator().manual_seed(groups + channels)
        self.kept = (channels + 1) // 2
        self.groups, self.channels = groups, channels
        batch, points, width = 2, 35, 32

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator).to(device)

        widths = [self.kept, width, width, width] if deep else [width]
        widths.append(channels - self.kept)
        layers = [
            tensor
            for inputs, outputs in pairwise(widths)
            for tensor in (normal(groups, inputs, outputs) / inputs**0.5, normal(groups, outputs))
        ]
        self.x = normal(batch, points, channels)
        self.total = normal(batch, points)
        self.features = None if deep else normal(groups, batch, points, width)
        self.layers = layers
        self.dy, self.dterms = normal(batch, points, channels), normal(batch, points)

    def leaves(self, dtype: torch.dtype) -> list[Tensor]:
        tensors = [self.x, self.total, *self.layers]
        if self.features is not None:
            tensors.append(self.features)
        return [tensor.detach().to(dtype).requires_grad_() for tensor in tensors]

    def twin(self, *direction: bool) -> list[Tensor]:
        leaves = self.leaves(torch.float64)
        x, total, *layers = leaves
        features = None if self.features is None else layers.pop()
        pairs = list(zip(layers[::2], layers[1::2], strict=True))
        y, terms = couple_torch(x, pairs, self.kept, FACTOR, features, Direction(*direction))
        return self.results(y, total if terms is None else total + terms, leaves)

    def fused(self, precision: str, *direction: bool) -> list[Tensor]:
        from pdflow.kernels.coupling.triton_autograd import Couple, Shape

        leaves = self.leaves(torch.float32)
        x, total, *layers = leaves
        features = None if self.features is None else layers.pop()
        shape = Shape(self.channels, self.kept, self.groups, Direction(*direction))
        y, terms = Couple.apply(x, total, features, FACTOR, shape, precision, *layers)
        return self.results(y, total if terms is None else terms, leaves)

    def results(self, y: Tensor, terms: Tensor, leaves: list[Tensor]) -> list[Tensor]:
        loss = (y * self.dy.to(y.dtype)).sum() + (terms * self.dterms.to(y.dtype)).sum()
        return [y.detach(), terms.detach(), *torch.autograd.grad(loss, leaves)]


@pytest.mark.parametrize("deep", [True, False], ids=["four-layers", "one-layer"])
@pytest.mark.parametrize("groups", [1, 2], ids=["additive", "affine"])
@pytest.mark.parametrize(
    ("channels", "direction"),
    [
        pytest.param(9, (False, True, False), id="turned-around-before"),
        pytest.param(35, (True, False, True), id="inverse-turned-around-after"),
        pytest.param(4, (True, False, False), id="inverse"),
    ],
)
def test_values_and_gradients_equal_the_twin(
    device: str, groups: int, channels: int, deep: bool, direction: tuple[bool, bool, bool]
) -> None:
    case = Case(groups, channels, deep, device)
    for found, expected in zip(case.fused("ieee", *direction), case.twin(*direction), strict=True):
        assert (found - expected).abs().max() < 2e-6 * expected.abs().max()


@pytest.mark.parametrize("deep", [True, False], ids=["four-layers", "one-layer"])
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_rounding_does_not_err(device: str, precision: str, deep: bool) -> None:
    if precision == "bf16" and device == "cpu":
        pytest.skip("Triton's interpreter has no bf16 products")
    case = Case(2, 11, deep, device)
    direction = (False, False, False)
    results = zip(case.fused(precision, *direction), case.twin(*direction), strict=True)
    for found, expected in results:
        assert (found - expected).norm() < 0.05 * expected.norm()


def test_log_determinants_that_are_not_needed_have_no_gradient(device: str) -> None:
    from pdflow.kernels.coupling.triton_autograd import Couple, Shape

    case = Case(2, 7, True, device)
    leaves = case.leaves(torch.float32)
    y, _ = Couple.apply(leaves[0], None, None, FACTOR, Shape(7, 4, 2, INVERSE), "ieee", *leaves[2:])
    found = torch.autograd.grad((y * case.dy).sum(), leaves[0])[0]
    double = [leaf.detach().double().requires_grad_() for leaf in leaves]
    pairs = list(zip(double[2::2], double[3::2], strict=True))
    expected_y, _ = couple_torch(double[0], pairs, 4, FACTOR, None, INVERSE)
    expected = torch.autograd.grad((expected_y * case.dy.double()).sum(), double[0])[0]
    assert (found - expected).abs().max() < 2e-6 * expected.abs().max()


@pytest.mark.parametrize("deep", [True, False], ids=["four-layers", "one-layer"])
def test_scale_and_shift_can_be_computed_one_after_the_other(
    device: str, deep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pdflow.kernels.coupling import triton_autograd

    case = Case(2, 9, deep, device)
    direction = (False, True, False)
    together = case.fused("ieee", *direction)
    monkeypatch.setattr(triton_autograd, "shared_memory", lambda _: 0)
    for found, expected in zip(case.fused("ieee", *direction), together, strict=True):
        assert (found - expected).abs().max() < 1e-6 * expected.abs().max()


def test_nothing_is_kept_without_a_backward_pass(device: str) -> None:
    from pdflow.kernels.coupling.triton_autograd import Shape, forward

    case = Case(2, 9, True, device)
    shape = Shape(9, case.kept, 2, Direction(flip_in=True))
    inputs = case.x, case.total, case.features, case.layers, FACTOR, shape, "ieee"
    y, _, kept = forward(*inputs, keep=False)
    assert torch.equal(y, forward(*inputs)[0])
    assert (kept.scale, kept.inputs, kept.hidden) == (None, None, None)
