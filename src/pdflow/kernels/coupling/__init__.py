"""Coupling layers with point-wise networks, Table 5."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pdflow.kernels import default_precision, runs_triton
from pdflow.kernels.coupling.direction import FORWARD, Direction
from pdflow.kernels.coupling.twin import couple_torch
from pdflow.kernels.grouped import Layer

_FUSED_WIDTHS = (32, 64)
_FUSED_CHANNELS = 128


def couple(
    x: Tensor,
    layers: Sequence[Layer],
    kept: int,
    clamp: float,
    *,
    features: Tensor | None = None,
    total: Tensor | None = None,
    direction: Direction = FORWARD,
) -> tuple[Tensor, Tensor | None]:
    """A coupling of Table 5: y = [h1, (h2 - b) exp(-s)], or its inverse y = [h1, h2 exp(s) + b].

    x          (B, N, C): h1 is its first `kept` channels, h2 the others
    layers     the network of s and b (2 groups), or of b alone (1 group), with relu between layers;
               the last layer has C - kept outputs
    clamp      s = (2 clamp / pi) atan(raw)
    features   (G, B, N, F) inputs of the network in place of h1
    total      (B, N) log-determinant terms of the layers before
    returns    y (B, N, C), and total plus the terms (B, N) of this coupling; if it has no scale,
               `total` itself

    The fused kernels run unless `torch.set_float32_matmul_precision` is "highest", for which plain
    torch is as fast. For "high" they round operands of products to tf32. For "medium" they round to
    fp16, which has as many digits as tf32, in the forward pass, and to bf16 in the backward pass.
    All else is fp32.
    """
    factor = 2 * clamp / math.pi
    precision = default_precision(x.dtype)
    if precision != "ieee" and _fused(x, layers, features):
        from pdflow.kernels.coupling.triton_autograd import Couple, Shape, forward

        shape = Shape(x.shape[-1], kept, len(layers[0][0]), direction)
        arguments = (
            x.contiguous(),
            None if total is None or shape.groups == 1 else total.contiguous(),
            None if features is None else features.contiguous(),
        )
        tensors = [tensor.contiguous() for layer in layers for tensor in layer]
        if torch.is_grad_enabled():
            y, terms = Couple.apply(*arguments, factor, shape, precision, *tensors)  # type: ignore[no-untyped-call]
        else:
            y, terms, _ = forward(*arguments, tensors, factor, shape, precision, keep=False)
        return y, total if terms is None else terms
    y, terms = couple_torch(x, layers, kept, factor, features, direction)
    return y, total if terms is None else terms if total is None else total + terms


def _fused(x: Tensor, layers: Sequence[Layer], features: Tensor | None) -> bool:
    if not runs_triton(x) or x.dtype != torch.float32 or x.shape[-1] > _FUSED_CHANNELS:
        return False
    width = layers[-1][0].shape[1]
    return width in _FUSED_WIDTHS and len(layers) == (4 if features is None else 1)
