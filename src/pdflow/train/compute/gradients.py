"""Several passes through one network in a training step, with one sum of their gradients.

A parameter that is used in several passes gets a gradient from each of them. Autograd adds these
with one kernel launch per parameter and pass; here one launch adds them for all parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

Run = Callable[..., Any]
"""Calls a method of the network by its name, with arguments."""


def separate_passes(network: nn.Module, count: int) -> list[Run]:
    """`count` ways to call methods of a network, whose gradients are added in one launch."""
    caller = _Caller(network)
    named = dict(caller.named_parameters())
    if not torch.is_grad_enabled() or not all(p.requires_grad for p in named.values()):
        return [caller] * count
    aliases: Sequence[Tensor] = _Share.apply(count, *named.values())  # type: ignore[no-untyped-call]
    groups = [aliases[i * len(named) : (i + 1) * len(named)] for i in range(count)]
    return [_Pass(caller, dict(zip(named, group, strict=True))) for group in groups]


class _Caller(nn.Module):
    """A module whose `forward` calls any method of a network."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, method: str, *arguments: Any) -> Any:
        return getattr(self.network, method)(*arguments)


class _Pass:
    """The caller with aliases in place of its parameters."""

    def __init__(self, caller: _Caller, aliases: dict[str, Tensor]) -> None:
        self.caller, self.aliases = caller, aliases

    def __call__(self, method: str, *arguments: Any) -> Any:
        return functional_call(self.caller, self.aliases, (method, *arguments))


class _Share(torch.autograd.Function):
    """`count` aliases of every tensor; the backward adds the gradients of each."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.number = len(tensors)
        # Not views: the first batch sets the parameters of activation norms in place.
        return tuple(tensor.data for _ in range(count) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        totals = list(gradients[: ctx.number])
        for first in range(ctx.number, len(gradients), ctx.number):
            more = gradients[first : first + ctx.number]
            both = [i for i, g in enumerate(more) if g is not None and totals[i] is not None]
            # All tensors of a call need the same layout, or it falls back to one launch each.
            pairs = [[g[i].contiguous() for i in both] for g in (totals, more)]  # type: ignore[union-attr]
            totals = [t if g is None else g for t, g in zip(totals, more, strict=True)]
            for i, total in zip(both, torch._foreach_add(*pairs) if both else (), strict=True):
                totals[i] = total
        return (None, *totals)
