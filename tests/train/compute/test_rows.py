from __future__ import annotations

import pytest
import torch

from pdflow.train.compute.rows import take_rows


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e9])
def test_rows_and_their_gradient_are_those_of_gather(size: float) -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(2, 9, 3, generator=generator, requires_grad=True)
    rows = torch.randint(5, (2, 40), generator=generator)
    expected = points.gather(1, rows[..., None].expand(-1, -1, 3))
    found = take_rows(points, rows)
    assert torch.equal(found, expected)
    d = size * torch.randn(found.shape, generator=generator)
    (gradient,) = torch.autograd.grad(found, points, d)
    (exact,) = torch.autograd.grad(expected.double(), points, d.double())
    torch.testing.assert_close(gradient, exact, rtol=1e-6, atol=1e-6 * size)


def test_the_gradient_does_not_depend_on_the_order_of_rows() -> None:
    generator = torch.Generator().manual_seed(1)
    points = torch.zeros(1, 3, 3, requires_grad=True)
    rows = torch.randint(3, (1, 500), generator=generator)
    d = torch.randn(1, 500, 3, generator=generator) * torch.logspace(-9, 3, 500)[:, None]
    gradients = []
    for _ in range(4):
        order = torch.randperm(500, generator=generator)
        (gradient,) = torch.autograd.grad(take_rows(points, rows[:, order]), points, d[:, order])
        gradients.append(gradient)
    assert all(torch.equal(gradients[0], other) for other in gradients[1:])


def test_no_gradient_is_none_and_a_bad_one_stays_bad() -> None:
    points = torch.zeros(1, 3, 3, requires_grad=True)
    rows = torch.tensor([[0, 0, 2]])
    (gradient,) = torch.autograd.grad(take_rows(points, rows), points, torch.zeros(1, 3, 3))
    assert torch.equal(gradient, torch.zeros(1, 3, 3))
    bad = torch.full((1, 3, 3), torch.inf)
    (gradient,) = torch.autograd.grad(take_rows(points, rows), points, bad)
    assert not gradient[0, 0].isfinite().any()
