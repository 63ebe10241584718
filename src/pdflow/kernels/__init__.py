"""The hot loops, a folder per topic.

- `edge`          layers F1, F2 and M1 of an EdgeUnit, Table 6
- `coupling`      coupling layers, Table 5
- `augmentation`  condition net and gated couplings of the augmentation module
- `mixing`        affine maps of channels: permutation layers, actnorms and filters
- `graph`         nearest neighbours within patches
- `matching`      matchings between patches, Eq. (15)
- `dense`         stacks of dense layers on a CPU
- `normal`        random numbers by key and place

`__init__` of a topic holds its functions: each runs the fused kernels (`triton_*`) on an NVIDIA GPU
with Triton, and else the twin in plain torch (`twin`), which runs anywhere. Triton is not imported
before a fused kernel runs. `cpu` holds compiled loops for one patch on one core; `normal` runs
these instead of a twin.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor

Precision = Literal["ieee", "tf32", "bf16"]
"""How fused kernels round the operands of products. Sums are fp32, and the same bits in every run,
except for those of `sums_in_any_order` and those that atomics make in "ieee"."""

_TORCH_PRECISION: dict[str, Precision] = {"highest": "ieee", "high": "tf32", "medium": "bf16"}


def default_precision(dtype: torch.dtype) -> Precision:
    """bf16 for bf16 tensors, else the setting of `torch.set_float32_matmul_precision`."""
    if dtype == torch.bfloat16:
        return "bf16"
    return _TORCH_PRECISION[torch.get_float32_matmul_precision()]


_fused_kernels_allowed = True


@contextmanager
def plain_torch() -> Iterator[None]:
    """Run the torch twins everywhere, for comparisons and to find faults."""
    global _fused_kernels_allowed
    before, _fused_kernels_allowed = _fused_kernels_allowed, False
    try:
        yield
    finally:
        _fused_kernels_allowed = before


_sums_repeat = True


@contextmanager
def sums_in_any_order() -> Iterator[None]:
    """Let the EdgeUnits of the paper add gradients in bf16 on Hopper GPUs.

    A training step of the paper's network is faster, but no run repeats another's bits.
    """
    global _sums_repeat
    before, _sums_repeat = _sums_repeat, False
    try:
        yield
    finally:
        _sums_repeat = before


def sums_repeat() -> bool:
    """Whether every sum must have the same bits in every run."""
    return _sums_repeat


def apply_fused(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """`function.apply`, which keeps nothing for a backward where no gradient is recorded.

    An autograd function cannot see that by itself: under `torch.no_grad`, too,
    `ctx.needs_input_grad` is true for parameters.
    """
    if not torch.is_grad_enabled():
        arguments = tuple(a.detach() if isinstance(a, Tensor) else a for a in arguments)
    return function.apply(*arguments)


def runs_triton(tensor: Tensor) -> bool:
    """Whether the Triton kernels support a tensor: fp32 or bf16, on NVIDIA Ampere or newer."""
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
