from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pdflow.kernels.gated import GatedWeights, Norm, gated_couple_torch

WIDTH = 32


def make_weights(kept: int, moved: int, generator: torch.Generator) -> GatedWeights:
    shapes = [
        (WIDTH, kept), (WIDTH,), (WIDTH, 2 * WIDTH), (WIDTH,), (2 * WIDTH, 2 * WIDTH), (2 * WIDTH,),
        (2 * WIDTH, 2 * WIDTH), (2 * WIDTH,), (WIDTH,), (WIDTH,), (2 * moved, WIDTH), (2 * moved,),
        (2 * moved,),
    ]  # fmt: skip
    return GatedWeights(*(0.3 * torch.randn(shape, generator=generator) for shape in shapes))


def make_norm(training: bool, double: bool, device: str) -> Norm:
    mean = torch.linspace(-1, 1, WIDTH, dtype=torch.float64 if double else torch.float32)
    return Norm(mean.to(device), (1 + mean.square()).to(device), training, 0.1, 1e-5)


@pytest.mark.parametrize(
    ("kept", "moved", "keep_first", "drawn", "squash", "training", "has_total"),
    [
        (5, 4, False, False, True, True, True),
        (16, 16, True, True, False, True, False),
        (3, 2, True, True, True, False, True),
    ],
)
def test_values_gradients_and_running_statistics_equal_the_twin(
    device: str,
    monkeypatch: pytest.MonkeyPatch,
    kept: int,
    moved: int,
    keep_first: bool,
    drawn: bool,
    squash: bool,
    training: bool,
    has_total: bool,
) -> None:
    from pdflow.kernels import launch_triton
    from pdflow.kernels.gated_launch_triton import GatedCouple

    # So that several programs share the tiles of every kernel.
    monkeypatch.setattr(launch_triton, "multiprocessors", lambda device: 4)
    generator = torch.Generator().manual_seed(kept)
    x, features = (torch.randn(2, 75, n, generator=generator) for n in (kept + moved, WIDTH))
    total = torch.randn(2, 75, generator=generator)
    tensors = [x, 3 + features, total, *make_weights(kept, moved, generator)]
    leaves = [tensor.to(device).requires_grad_() for tensor in tensors]
    double = [leaf.detach().double().requires_grad_() for leaf in leaves]

    def run(leaves: list[Tensor], norm: Norm, fused: bool) -> tuple[Tensor, ...]:
        x, features, total, *weights = leaves
        before = total if has_total else None
        if fused:
            return GatedCouple.apply(
                x, features, before, norm, keep_first, drawn, squash, "ieee", *weights
            )
        w = GatedWeights(*weights)
        y, terms = gated_couple_torch(x, features, w, norm, keep_first, before, drawn, squash)
        return y, terms, features

    norm, exact_norm = (make_norm(training, d, device) for d in (False, True))
    found, expected = run(leaves, norm, True), run(double, exact_norm, False)
    for a, b in zip(found, expected, strict=True):
        assert (a - b).abs().max() < 1e-5 * b.abs().max()
    for a, b in zip(norm[:2], exact_norm[:2], strict=True):
        assert (a - b).abs().max() < 1e-5 * b.abs().max()
    d = [torch.randn(value.shape, generator=generator).to(device) for value in found]
    gradients = torch.autograd.grad(found, leaves, d, allow_unused=True)
    exact = torch.autograd.grad(expected, double, [v.double() for v in d], allow_unused=True)
    for i, (a, b) in enumerate(zip(gradients, exact, strict=True)):
        if i == 2 and not has_total:
            assert a is None
        else:
            assert a is not None
            assert (a - b).abs().max() < 2e-5 * b.abs().max(), i
