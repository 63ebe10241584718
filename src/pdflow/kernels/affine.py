"""One affine map of the channels of all points: permutation layer and actnorm of a block."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.kernels import default_precision, runs_triton

_FUSED_CHANNELS = 64


def affine(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """x A + b for x (B, N, C), A (C, D) and b (D,) -> (B, N, D), to fp32 on any device.

    On a GPU that may round products, gradients are rounded to tf32.
    """
    fused = x.dtype == torch.float32 and max(matrix.shape) <= _FUSED_CHANNELS
    if fused and runs_triton(x) and default_precision(x.dtype) != "ieee":
        from pdflow.kernels.affine_triton import Affine

        result: Tensor = Affine.apply(
            x.contiguous(), matrix.contiguous(), bias.contiguous(), "tf32"
        )  # type: ignore[no-untyped-call]
        return result
    return affine_torch(x, matrix, bias)


def affine_torch(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """`affine` in plain torch, for any device and type."""
    return x @ matrix + bias
