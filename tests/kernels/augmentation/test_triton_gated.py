from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from pdflow.kernels import augmentation
from pdflow.kernels.augmentation.twin import gated_couple_torch
from pdflow.kernels.augmentation.weights import GatedWeights, Norm, Step

Results = tuple[list[Tensor], list[Tensor | None]]
"""Values and running statistics; gradients of x, features, total and weights."""


def make_weights(kept: int, moved: int, width: int, generator: torch.Generator) -> GatedWeights:
    shapes = [
        (width, kept), (width,), (width, 2 * width), (width,), (2 * width, 2 * width), (2 * width,),
        (2 * width, 2 * width), (2 * width,), (width,), (width,), (2 * moved, width), (2 * moved,),
        (2 * moved,),
    ]  # fmt: skip
    return GatedWeights(*(0.3 * torch.randn(shape, generator=generator) for shape in shapes))


@dataclass(frozen=True)
class Case:
    kept: int
    moved: int
    keep_first: bool
    drawn: bool
    squash: bool
    training: bool
    has_total: bool
    width: int = 32

    def results(self, precision: str, device: str) -> tuple[Results, Results]:
        """What the kernels find, and the twin in double precision."""
        from pdflow.kernels.augmentation.triton_autograd import GatedCouple

        generator = torch.Generator().manual_seed(self.kept)
        sizes = self.kept + self.moved, self.width
        x, features = (torch.randn(2, 75, n, generator=generator) for n in sizes)
        total = torch.randn(2, 75, generator=generator)
        weights = make_weights(self.kept, self.moved, self.width, generator)
        leaves = [t.to(device).requires_grad_() for t in (x, 3 + features, total, *weights)]
        d = [torch.randn(v.shape, generator=generator).to(device) for v in (x, total, features)]
        step = Step(self.keep_first, self.drawn, self.squash)

        def fused(leaves: list[Tensor], norm: Norm) -> tuple[Tensor, ...]:
            x, features, total, *w = leaves
            before = total if self.has_total else None
            return GatedCouple.apply(x, features, before, norm, step, precision, *w)

        def twin(leaves: list[Tensor], norm: Norm) -> tuple[Tensor, ...]:
            x, features, total, *w = leaves
            y, terms = gated_couple_torch(x, features, GatedWeights(*w), norm, step)
            return y, total + terms if self.has_total else terms, features

        both = []
        for couple, dtype in ((fused, torch.float32), (twin, torch.float64)):
            inputs = [leaf.detach().to(dtype).requires_grad_() for leaf in leaves]
            mean = torch.linspace(-1, 1, self.width, dtype=dtype, device=device)
            norm = Norm(mean, 1 + mean.square(), self.training, 0.1, 1e-5)
            found = couple(inputs, norm)
            ways = [v.to(dtype) for v in d]
            gradients = torch.autograd.grad(found, inputs, ways, allow_unused=True)
            both.append(([*found, norm.mean, norm.var], [*gradients]))
        return both[0], both[1]


@pytest.mark.parametrize(
    "case",
    [
        Case(5, 4, False, False, True, True, True),
        Case(16, 16, True, True, False, True, False),
        Case(3, 2, True, True, True, False, True),
    ],
    ids=["last-kept", "drawn", "running-statistics"],
)
def test_values_gradients_and_running_statistics_equal_the_twin(
    device: str, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    from pdflow.kernels import triton_launch

    # So that several programs share the tiles of every kernel.
    monkeypatch.setattr(triton_launch, "multiprocessors", lambda device: 4)
    (values, gradients), (exact_values, exact_gradients) = case.results("ieee", device)
    for a, b in zip(values, exact_values, strict=True):
        assert (a - b).abs().max() < 1e-5 * b.abs().max()
    for i, (d, exact) in enumerate(zip(gradients, exact_gradients, strict=True)):
        if i == 2 and not case.has_total:
            assert d is None
        else:
            assert d is not None
            assert exact is not None
            assert (d - exact).abs().max() < 2e-5 * exact.abs().max(), i


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_rounding_does_not_err(device: str, precision: str) -> None:
    if device == "cpu":
        pytest.skip("Triton's interpreter has no bf16 products")
    case = Case(16, 16, True, True, True, True, True, width=64)
    (values, gradients), (exact_values, exact_gradients) = case.results(precision, device)
    for a, b in zip([*values, *gradients], [*exact_values, *exact_gradients], strict=True):
        assert a is not None
        assert b is not None
        assert (a - b).norm() < 0.05 * b.norm()


def test_weights_that_shared_memory_cannot_hold_are_left_to_torch(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pdflow.kernels import triton_launch

    monkeypatch.setattr(augmentation, "runs_triton", lambda tensor: True)
    monkeypatch.setattr(triton_launch, "shared_memory", lambda device: 100 * 1024)
    generator = torch.Generator().manual_seed(0)
    for width, precision, fused in ((64, "tf32", False), (32, "tf32", True), (64, "bf16", True)):
        weights = make_weights(3, 2, width, generator)
        x, features = torch.zeros(1, 4, 5), torch.zeros(1, 4, width)
        assert augmentation._runs_gated_kernels(x, features, weights, precision) == fused
