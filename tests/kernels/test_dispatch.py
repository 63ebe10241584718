from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from pdflow import kernels


def test_plain_torch_keeps_fused_kernels_out_within_its_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "_device_runs_triton", lambda index: True)
    on_a_gpu = SimpleNamespace(is_cuda=True, dtype=torch.float32, device=SimpleNamespace(index=0))
    assert kernels.runs_triton(on_a_gpu)  # type: ignore[arg-type]
    with kernels.plain_torch():
        assert not kernels.runs_triton(on_a_gpu)  # type: ignore[arg-type]
    assert kernels.runs_triton(on_a_gpu)  # type: ignore[arg-type]


def test_float64_never_runs_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_device_runs_triton", lambda index: True)
    tensor = SimpleNamespace(is_cuda=True, dtype=torch.float64, device=SimpleNamespace(index=0))
    assert not kernels.runs_triton(tensor)  # type: ignore[arg-type]


class _Doubled(torch.autograd.Function):
    """2 x; notes whether it would keep something for its backward."""

    kept: ClassVar[list[bool]] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, label: str) -> torch.Tensor:
        _Doubled.kept.append(any(ctx.needs_input_grad))
        return 2 * x

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return 2 * gradients[0], None


def test_fused_functions_keep_nothing_where_no_gradient_is_recorded() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    with torch.no_grad():
        quiet = kernels.apply_fused(_Doubled, weight, "no gradient")
    with torch.inference_mode():
        kernels.apply_fused(_Doubled, weight, "inference")
    recorded = kernels.apply_fused(_Doubled, weight, "training")
    assert _Doubled.kept == [False, False, True]
    assert torch.equal(quiet, recorded)
    (gradient,) = torch.autograd.grad(recorded.sum(), weight)
    assert gradient.tolist() == [2, 2, 2]
