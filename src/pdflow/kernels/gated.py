"""Couplings of the augmentation module: shift and scale from a gated residual network."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import batch_norm, elu, linear, logsigmoid

from pdflow.kernels import Precision, default_precision, runs_triton

LOG_SCALE_SPEED = 3.0
"""Factor on the learned log scale of the output layer, which lets it leave zero quickly."""

_FUSED_WIDTHS = (32, 64)
_FUSED_CHANNELS = 128

_ROOMY = 200 * 1024
"""Bytes of shared memory for which a program can hold all weights of the widest network in tf32."""


class GatedWeights(NamedTuple):
    """The network of one coupling: F condition features, H hidden, C - M kept, M moved channels.

    Weights are (outputs, inputs) and biases (outputs,), as in nn.Linear. gamma and beta (H,) are
    those of batch normalisation, where there is one.
    """

    lift: Tensor
    lift_bias: Tensor
    inner: Tensor
    inner_bias: Tensor
    gate: Tensor
    gate_bias: Tensor
    condition: Tensor
    condition_bias: Tensor
    gamma: Tensor | None
    beta: Tensor | None
    last: Tensor
    last_bias: Tensor
    log_scale: Tensor


class Norm(NamedTuple):
    """Running mean and variance (H,) of batch normalisation, and whether the batch's are used.

    Where they are, the running ones move by `momentum` of the way to them.
    """

    mean: Tensor
    var: Tensor
    training: bool
    momentum: float
    eps: float


def gated_couple(
    x: Tensor,
    features: Tensor,
    weights: GatedWeights,
    norm: Norm | None,
    *,
    keep_first: bool,
    total: Tensor | None = None,
    drawn: bool = False,
    squash: bool = False,
    precision: Precision | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """y = (x + shift) sigmoid(scale) on one part of the channels, as the other part says.

    x           (B, N, C)
    features    (B, N, F) of the condition net, float32 or bf16
    keep_first  whether the first C - M channels are kept, or the last ones
    total       (B, N) log-determinant terms of what came before
    drawn       whether terms begin with -log N(x; 0, I): those of the last coupling are -log q then
    squash      whether a sigmoid of all channels follows
    precision   of products; by default that of `torch.set_float32_matmul_precision`. Fused kernels
                run unless it is "ieee", and round to bf16 backward
    returns     y (B, N, C), total plus the terms (B, N) of this coupling, and the features: given
                to the next coupling, their gradients are added up on the way back
    """
    precision = precision or default_precision(x.dtype)
    if precision != "ieee" and norm and _fused(x, features, weights, precision):
        from pdflow.kernels.gated_launch_triton import GatedCouple

        result: tuple[Tensor, Tensor, Tensor] = GatedCouple.apply(
            x.contiguous(),
            features.contiguous(),
            None if total is None else total.contiguous(),
            norm,
            keep_first,
            drawn,
            squash,
            precision,
            *(weight.contiguous() for weight in weights if weight is not None),
        )  # type: ignore[no-untyped-call]
        return result
    y, terms = gated_couple_torch(x, features, weights, norm, keep_first, total, drawn, squash)
    return y, terms, features


def gated_couple_torch(
    x: Tensor,
    features: Tensor,
    weights: GatedWeights,
    norm: Norm | None,
    keep_first: bool,
    total: Tensor | None = None,
    drawn: bool = False,
    squash: bool = False,
) -> tuple[Tensor, Tensor]:
    """`gated_couple` in plain torch, for any device and type."""
    sizes = [weights.lift.shape[1], len(weights.last) // 2]
    first, second = x.split(sizes if keep_first else sizes[::-1], dim=-1)
    kept, moved = (first, second) if keep_first else (second, first)
    shift, scale = shift_and_scale(kept, features, weights, norm)
    moved = (moved + shift) * torch.sigmoid(scale)
    y = torch.cat([kept, moved] if keep_first else [moved, kept], -1)
    terms = logsigmoid(scale).sum(-1)
    if drawn:
        terms = terms + 0.5 * (x.square() + math.log(2 * math.pi)).sum(-1)
    if squash:
        terms = terms + (logsigmoid(y) + logsigmoid(-y)).sum(-1)
        y = torch.sigmoid(y)
    return y, terms if total is None else total + terms


def shift_and_scale(
    kept: Tensor, features: Tensor, weights: GatedWeights, norm: Norm | None
) -> tuple[Tensor, Tensor]:
    """The network in plain torch: shift and raw scale (B, N, M) from kept channels and features."""
    w = weights
    h = linear(kept, w.lift, w.lift_bias)
    u = linear(_both_elus(h), w.inner, w.inner_bias)
    gated = linear(_both_elus(u), w.gate, w.gate_bias)
    features = _both_elus(features.to(h.dtype))
    gated = gated + linear(features, w.condition, w.condition_bias)
    value, gate = gated.chunk(2, dim=-1)
    h = h + value * torch.sigmoid(gate)
    if norm is not None:
        options = (norm.mean, norm.var, w.gamma, w.beta, norm.training, norm.momentum, norm.eps)
        h = batch_norm(h.flatten(0, 1), *options).view_as(h)
    out = linear(h, w.last, w.last_bias) * torch.exp(LOG_SCALE_SPEED * w.log_scale)
    return out[..., 0::2], out[..., 1::2]


def _both_elus(x: Tensor) -> Tensor:
    """Concatenated ELU: (.., C) -> (.., 2 C)."""
    return elu(torch.cat([x, -x], -1))


def _fused(x: Tensor, features: Tensor, weights: GatedWeights, precision: Precision) -> bool:
    if not runs_triton(x) or x.dtype != torch.float32 or x.shape[-1] > _FUSED_CHANNELS:
        return False
    width = len(weights.lift)
    if width not in _FUSED_WIDTHS or features.shape[-1] != width:
        return False
    from pdflow.kernels.launch_triton import shared_memory

    return precision == "bf16" or width < _FUSED_WIDTHS[-1] or shared_memory(x.device) >= _ROOMY
