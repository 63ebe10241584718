"""The few hot loops, each behind a plain signature.

Every loop has a twin in plain torch, which runs anywhere. On an NVIDIA GPU, with Triton installed,
the fused kernels of the `*_triton` modules take its place.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


def runs_triton(tensor: Tensor) -> bool:
    """Whether the Triton kernels can work on a tensor: fp32 or bf16, NVIDIA from Ampere on."""
    if not tensor.is_cuda or tensor.dtype not in (torch.float32, torch.bfloat16):
        return False
    return bool(_device_runs_triton(tensor.device.index))


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
@cache
def _device_runs_triton(index: int) -> bool:
    if torch.version.cuda is None or find_spec("triton") is None:
        return False
    return torch.cuda.get_device_capability(index) >= (8, 0)
