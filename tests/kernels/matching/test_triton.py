from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pdflow.kernels.graph.twin import nearest_torch
from pdflow.kernels.matching import twin
from pdflow.kernels.matching.twin import candidate_costs, match_torch


def candidates_with_costs(
    points: int, k: int, noise: float, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Targets to choose from and their costs (2, N, K), of flat patches with noise."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randn(2, points, 3, generator=generator)
    target[..., 2] = 0
    prediction = target.flip(1) + noise * torch.randn(target.shape, generator=generator)
    candidates = nearest_torch(prediction, target, k)
    return candidates, candidate_costs(prediction, target, candidates)


def fused_match(device: str, candidates: Tensor, costs: Tensor, bijection: bool) -> Tensor:
    from pdflow.kernels.matching.triton_match import match

    rows, costs = (x.int().transpose(1, 2).contiguous().to(device) for x in (candidates, costs))
    return match(rows, costs, bijection).cpu()


@pytest.mark.parametrize("bijection", [True, False], ids=["bijection", "auction"])
@pytest.mark.parametrize(
    ("points", "k", "noise"), [(60, 16, 0.05), (37, 4, 0.2), (32, 2, 0.3), (5, 4, 1.0), (1, 1, 1.0)]
)
def test_equals_the_twin(device: str, points: int, k: int, noise: float, bijection: bool) -> None:
    candidates, costs = candidates_with_costs(points, k, noise)
    found = fused_match(device, candidates, costs, bijection)
    assert found.dtype == torch.long
    assert torch.equal(found, match_torch(candidates, costs, bijection))


def test_paths_alone_equal_the_twin(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twin, "ROUNDS", 2)
    monkeypatch.setattr(twin, "HOPS", 8)
    candidates, costs = candidates_with_costs(64, 8, 0.1)
    found = fused_match(device, candidates, costs, bijection=True)
    assert torch.equal(found, match_torch(candidates, costs, bijection=True))


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_costs_are_those_of_the_twin_up_to_rounding(device: str, value: float | None) -> None:
    from pdflow.kernels.matching import triton_match

    generator = torch.Generator().manual_seed(0)
    prediction, target = torch.randn(2, 2, 40, 3, generator=generator).unbind()
    if value is not None:
        prediction[0, 3] = value
    candidates = nearest_torch(prediction, target, 6)
    expected = candidate_costs(prediction, target, candidates)
    found: list[Tensor] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(triton_match, "match", lambda *tensors: found.extend(tensors))
        triton_match.match_nearest(
            prediction.to(device), target.to(device), candidates.to(device), bijection=True
        )
    assert torch.equal(found[0].cpu().transpose(1, 2), candidates.int())
    assert (found[1].cpu().transpose(1, 2) - expected).abs().max() <= 1
