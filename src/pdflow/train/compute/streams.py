"""Work beside other work: a stream of its own on a GPU, nothing special on a CPU."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache

import torch
from torch import Tensor


class Beside:
    """Queue the work of a block beside what follows it, on a stream of its own; plain on a CPU.

    inputs  tensors made before the block that it reads

    Autograd runs the backward of the block on the same stream. `join` before outputs are read.
    """

    def __init__(self, *inputs: Tensor) -> None:
        self.inputs = inputs
        self.entered = ExitStack()
        self.device = inputs[0].device

    def __enter__(self) -> Beside:
        if self.device.type == "cuda":
            side = _side_stream(self.device)
            side.wait_stream(torch.cuda.current_stream(self.device))
            for tensor in self.inputs:
                tensor.record_stream(side)
            self.entered.enter_context(torch.cuda.stream(side))
        return self

    def __exit__(self, *_: object) -> None:
        self.entered.close()

    def join(self, *outputs: Tensor) -> None:
        """Let the current stream wait for the block, which made these tensors."""
        if self.device.type == "cuda":
            main = torch.cuda.current_stream(self.device)
            main.wait_stream(_side_stream(self.device))
            for tensor in outputs:
                tensor.record_stream(main)


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """One stream per device: memory is kept apart for each of them."""
    return torch.cuda.Stream(device)
