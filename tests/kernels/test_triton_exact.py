from __future__ import annotations

import pytest
import torch
from torch import Tensor

GROUPS, PATCHES, POINTS, INPUTS, OUTPUTS = 2, 3, 150, 32, 64


@pytest.fixture
def factors(device: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    d = torch.randn(GROUPS, PATCHES, POINTS, OUTPUTS, generator=generator)
    size = torch.tensor([1e-6, 1.0, 3e4])[:, None, None]
    weight = torch.randn(GROUPS, INPUTS, OUTPUTS, generator=generator)
    return (d * size).to(device), weight.to(device)


def terms(d: Tensor, weight: Tensor, scale: float = 1.0) -> Tensor:
    return d @ weight.mT[:, None] * scale


def test_rounded_terms_have_the_same_sum_in_every_order(factors: tuple[Tensor, Tensor]) -> None:
    from pdflow.kernels.triton_exact import anchors

    anchor = anchors(*factors)[..., None, None]
    rounded = (terms(*factors) + anchor) - anchor
    generator = torch.Generator().manual_seed(1)
    orders = [torch.randperm(POINTS, generator=generator).tolist() for _ in range(5)]

    def in_turn(values: Tensor, order: list[int]) -> Tensor:
        total = torch.zeros_like(values[..., 0, :])
        for place in order:
            total = total + values[..., place, :]
        return total

    sums = [in_turn(rounded, order) for order in orders]
    assert all(torch.equal(sums[0], other) for other in sums[1:])
    unrounded = [in_turn(terms(*factors), order) for order in orders]
    assert not all(torch.equal(unrounded[0], other) for other in unrounded[1:])


def test_terms_keep_their_digits(factors: tuple[Tensor, Tensor]) -> None:
    from pdflow.kernels.triton_exact import anchors

    exact = terms(*factors)
    anchor = anchors(*factors)[..., None, None]
    off = ((exact + anchor) - anchor - exact).abs().amax((2, 3))
    assert (off < 2**-16 * exact.abs().amax((2, 3))).all()


@pytest.mark.parametrize("scale", [1.0, 1 / 12])
def test_no_term_comes_near_the_anchor(factors: tuple[Tensor, Tensor], scale: float) -> None:
    from pdflow.kernels.triton_exact import anchors

    d, weight = factors
    transposed = weight.mT.contiguous().mT
    assert torch.equal(anchors(d, weight, scale), anchors(d, transposed, scale))
    longest = d.norm(dim=-1).amax(-1) * weight.norm(dim=-1).amax(-1)[:, None] * scale
    assert (anchors(d, weight, scale) >= 8 * longest).all()


def test_without_a_gradient_terms_stay_zero(device: str) -> None:
    from pdflow.kernels.triton_exact import anchors

    d, weight = torch.zeros(1, 1, 20, 32, device=device), torch.ones(1, 32, 32, device=device)
    anchor = anchors(d, weight)
    assert torch.equal((0.0 + anchor) - anchor, torch.zeros_like(anchor))


def test_a_gradient_that_is_not_finite_stays_so(device: str) -> None:
    from pdflow.kernels.triton_exact import anchors

    d, weight = torch.ones(1, 1, 20, 32, device=device), torch.ones(1, 32, 32, device=device)
    d[0, 0, 3, 4] = torch.inf
    anchor = anchors(d, weight)
    assert ((1.0 + anchor) - anchor).isnan().all()
