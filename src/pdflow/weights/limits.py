"""What a weight file may make pdflow build: no more than its tensors can fill.

The config in a file is only a claim. One that says a thousand million layers, or layers as wide,
would take all time and memory before its tensors are compared with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pdflow.config import FlowConfig

TENSORS_PER_LAYER = 4
"""Every block, coupling step and condition layer has at least this many tensors."""

SMALL = 2**20
"""Numbers that any network may have."""

FACTOR = 4
"""Numbers that may be allocated for each one in a file: starting values need space too."""

_MAKERS = (torch.empty, torch.zeros, torch.ones, torch.full, torch.randn, torch.rand)
_LINEAR_MAKERS = (torch.arange, torch.randperm)


def check_depth(config: FlowConfig, tensors: Mapping[str, Tensor]) -> None:
    """Refuse a config with more layers than the tensors of a file can belong to."""
    layers = len(config.edge_neighbours)
    if config.augment_dims:
        layers += config.augment_steps if config.augment_flow == "couplings" else 0
        layers += config.condition_layers if config.condition == "graph" else 0
    if layers * TENSORS_PER_LAYER > len(tensors):
        raise ValueError(f"{len(tensors)} tensors are too few for {layers} layers")


class AllocationLimit(TorchFunctionMode):
    """A block in which torch makes no more numbers than those of a file ask for."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._left = SMALL + FACTOR * sum(tensor.numel() for tensor in tensors.values())

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self._left -= _requested(func, args)
        if self._left < 0:
            raise ValueError("the network would be far larger than the file")
        return func(*args, **(kwargs or {}))


def _requested(func: Callable[..., Any], args: tuple[Any, ...]) -> int:
    """Numbers that a call makes; 0 if it is not one of those that make parameters and buffers."""
    if func is torch.eye:
        return int(args[0]) ** 2
    if func in _LINEAR_MAKERS:
        return int(args[-1])
    if func not in _MAKERS:
        return 0
    shape = args[0] if isinstance(args[0], (tuple, list)) else args
    return math.prod(int(length) for length in shape)
