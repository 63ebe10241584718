"""One affine map of the channels of all points, as in permutation layers and actnorms."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from pdflow.kernels import default_precision, runs_triton

_FUSED_CHANNELS = 64


def affine(x: Tensor, matrix: Tensor, bias: Tensor, *, relu: bool = False) -> Tensor:
    """x A + b, or relu(x A + b), for x (B, N, C), A (C, D) and b (D,) -> (B, N, D).

    x may be bf16 where the fused kernels run; all else keeps fp32. Where a GPU may round products,
    the gradient of x is rounded to tf32, and that of A as asked for.
    """
    fused = matrix.dtype == torch.float32 and max(matrix.shape) <= _FUSED_CHANNELS
    precision = default_precision(matrix.dtype)
    if fused and runs_triton(x) and precision != "ieee":
        from pdflow.kernels.affine_triton import Affine

        result: Tensor = Affine.apply(
            x.contiguous(), matrix.contiguous(), bias.contiguous(), relu, precision
        )  # type: ignore[no-untyped-call]
        return result
    return affine_torch(x.to(matrix.dtype), matrix, bias, relu)


def affine_torch(x: Tensor, matrix: Tensor, bias: Tensor, relu: bool = False) -> Tensor:
    """`affine` in plain torch, for any device and type."""
    y = linear(x, matrix.mT, bias)
    return torch.relu(y) if relu else y
