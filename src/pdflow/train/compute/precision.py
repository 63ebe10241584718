"""How products of matrices are rounded while training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

PRECISIONS = {"ieee": "highest", "tf32": "high", "bf16": "medium"}
"""Precision of a recipe -> torch's name for it. Tensors are float32 in all of them."""


@contextmanager
def matmul_precision(name: str) -> Iterator[None]:
    """Round the operands of float32 products on a GPU as `name` says, within the block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRECISIONS[name])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
