from __future__ import annotations

from types import SimpleNamespace

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
