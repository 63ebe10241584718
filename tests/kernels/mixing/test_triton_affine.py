from __future__ import annotations

import pytest
import torch

from pdflow.kernels.mixing import affine
from pdflow.kernels.mixing.twin import affine_torch


@pytest.mark.parametrize("relu", [False, True], ids=["affine", "relu"])
@pytest.mark.parametrize(("inputs", "outputs"), [(3, 3), (35, 35), (20, 64)])
def test_values_and_gradients_equal_the_twin(
    device: str, inputs: int, outputs: int, relu: bool
) -> None:
    from pdflow.kernels.mixing.triton_affine import Affine

    generator = torch.Generator().manual_seed(inputs)
    shapes = [(2, 41, inputs), (inputs, outputs), (outputs,)]
    leaves = [torch.randn(s, generator=generator).to(device).requires_grad_() for s in shapes]
    found = Affine.apply(*leaves, relu, "ieee")
    double = [leaf.detach().double().requires_grad_() for leaf in leaves]
    expected = affine_torch(*double, relu)
    assert (found - expected).abs().max() < 1e-6 * expected.abs().max()
    dy = torch.randn(found.shape, generator=generator).to(device)
    gradients = torch.autograd.grad(found, leaves, dy)
    expected_gradients = torch.autograd.grad(expected, double, dy.double())
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        assert (gradient - expected_gradient).abs().max() < 1e-6 * expected_gradient.abs().max()


def test_channels_of_all_sizes_keep_their_digits(device: str) -> None:
    from pdflow.kernels.mixing.triton_affine import forward

    generator = torch.Generator().manual_seed(0)
    x, matrix, bias = (torch.randn(s, generator=generator) for s in [(2, 41, 35), (35, 35), (35,)])
    sizes = 10.0 ** torch.linspace(-6, 6, 35)
    x, matrix, bias = (t.to(device) for t in (x * sizes, matrix / sizes[:, None], bias))
    expected = affine_torch(x.double(), matrix.double(), bias.double())
    found = forward(x, matrix, bias, False, "tf32")
    assert (found - expected).abs().max() < 1e-6 * expected.abs().max()


def test_equals_its_definition_on_the_cpu() -> None:
    x, matrix, bias = torch.randn(1, 4, 3), torch.randn(3, 5), torch.randn(5)
    expected = torch.stack([sum(p[i] * matrix[i] for i in range(3)) + bias for p in x[0]])
    torch.testing.assert_close(affine(x, matrix, bias)[0], expected)
