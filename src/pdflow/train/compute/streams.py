"""Work in parallel with other work: a second CUDA stream on a GPU, in line on a CPU."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache

import torch
from torch import Tensor


class Beside:
    """Queue the work of a block on a second stream, parallel to what follows it.

    inputs  tensors made before the block that it reads

    On a CPU the block runs in line. Autograd runs the backward of the block on the same stream.
    Call `join` before anything reads the outputs of the block.
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
        """Let the current stream wait for the block that made these tensors."""
        if self.device.type == "cuda":
            main = torch.cuda.current_stream(self.device)
            main.wait_stream(_side_stream(self.device))
            for tensor in outputs:
                tensor.record_stream(main)


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """The second stream of a device. Only one: the allocator keeps memory for each stream."""
    return torch.cuda.Stream(device)
