"""The few hot loops, each behind a plain signature.

Every loop has a twin in plain torch, which runs anywhere. On an NVIDIA GPU, with Triton installed,
the fused kernels of the `triton_*` modules take its place; nothing of theirs is imported before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor

Precision = Literal["ieee", "tf32", "bf16"]
"""How the operands of products in fused kernels are rounded. Sums are fp32, but for the gradient of
neighbours in "bf16" on Hopper GPUs."""

_TORCH_PRECISION: dict[str, Precision] = {"highest": "ieee", "high": "tf32", "medium": "bf16"}


def default_precision(dtype: torch.dtype) -> Precision:
    """bf16 for bf16 tensors, else what `torch.set_float32_matmul_precision` asks for."""
    if dtype == torch.bfloat16:
        return "bf16"
    return _TORCH_PRECISION[torch.get_float32_matmul_precision()]


_fused_kernels_allowed = True


@contextmanager
def plain_torch() -> Iterator[None]:
    """Run the twins in plain torch everywhere, to compare with or to look for a fault."""
    global _fused_kernels_allowed
    before, _fused_kernels_allowed = _fused_kernels_allowed, False
    try:
        yield
    finally:
        _fused_kernels_allowed = before


def runs_triton(tensor: Tensor) -> bool:
    """Whether the Triton kernels can work on a tensor: fp32 or bf16, NVIDIA from Ampere on."""
    if not _fused_kernels_allowed or not tensor.is_cuda:
        return False
    if tensor.dtype not in (torch.float32, torch.bfloat16):
        return False
    return _device_runs_triton(tensor.device.index)


@cache
def _device_runs_triton(index: int) -> bool:
    if torch.version.cuda is None or find_spec("triton") is None:
        return False
    return torch.cuda.get_device_capability(index) >= (8, 0)
