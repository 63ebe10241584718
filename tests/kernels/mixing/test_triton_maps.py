from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pdflow.kernels.mixing.twin import mixing_maps_torch


def factors(blocks: int, channels: int, device: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(channels)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    signs = normal(blocks, channels).sign()
    order = torch.stack([torch.randperm(channels, generator=generator) for _ in range(blocks)])
    lu = 0.3 * normal(blocks, channels, channels)
    mu, sigma = normal(blocks, channels), 0.3 * normal(blocks, channels)
    return [tensor.to(device) for tensor in (lu, mu, sigma, signs, order)]


@pytest.mark.parametrize("inverse", [False, True], ids=["forward", "inverse"])
@pytest.mark.parametrize(("blocks", "channels"), [(1, 3), (2, 19)])
def test_maps_and_gradients_equal_the_twin(
    device: str, blocks: int, channels: int, inverse: bool
) -> None:
    from pdflow.kernels.mixing.triton_maps import MixingMaps

    *parameters, signs, order = factors(blocks, channels, device)
    leaves = [tensor.requires_grad_() for tensor in parameters]
    found = MixingMaps.apply(*leaves, signs, order, inverse, "ieee")
    double = [leaf.detach().double().requires_grad_() for leaf in leaves]
    expected = mixing_maps_torch(*double, signs.double(), order, inverse)
    weights = [torch.randn(part.shape, device=device) for part in found]
    gradients = torch.autograd.grad(found, leaves, weights)
    expected_gradients = torch.autograd.grad(expected, double, [w.double() for w in weights])
    for one, other in zip((*found, *gradients), (*expected, *expected_gradients), strict=True):
        assert (one - other).abs().max() < 1e-5 * other.abs().max()
