"""Precision of matrix products in training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from pdflow.kernels import sums_in_any_order

FAST = "bf16-fast"
"""bf16 with sums in any order."""

PRECISIONS = {"ieee": "highest", "tf32": "high", "bf16": "medium", FAST: "medium"}
"""Precision in a recipe -> torch's name for it. All tensors are float32 in any case."""


@contextmanager
def matmul_precision(name: str) -> Iterator[None]:
    """Round the operands of float32 matrix products on a GPU to `name` within the block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRECISIONS[name])
    try:
        with sums_in_any_order() if name == FAST else nullcontext():
            yield
    finally:
        torch.set_float32_matmul_precision(before)
