"""A training step as one CUDA graph: one launch instead of hundreds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

WARM_UP = 3
"""Steps run and undone before one is recorded: they compile kernels and allocate memory."""


def captured(
    step: Callable[[], None], state: Mapping[str, Tensor], device: torch.device
) -> Callable[[], None]:
    """Record `step` as a CUDA graph, and return a function that replays it.

    state  every tensor that a step changes and that later steps depend on
    """
    stream = torch.cuda.Stream(device)
    with _undone(state, device):
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                step()
        torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # Threads that watch messages between GPUs keep running during the capture.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        step()
    return graph.replay


@contextmanager
def _undone(state: Mapping[str, Tensor], device: torch.device) -> Iterator[None]:
    """Restore the tensors and the random state of the device after the block."""
    copies = {name: value.detach().clone() for name, value in state.items()}
    random = torch.cuda.get_rng_state(device)
    yield
    torch.cuda.set_rng_state(random, device)
    for name, value in state.items():
        value.detach().copy_(copies[name])


class Clock:
    """Seconds since the clock was made.

    On a GPU a reading waits for the steps before the last reading, so that the queue stays short
    and never runs empty.
    """

    def __init__(self, device: torch.device) -> None:
        self._start = time.perf_counter()
        self._mark = torch.cuda.Event() if device.type == "cuda" else None

    def seconds(self) -> float:
        """Read the clock."""
        if self._mark is not None:
            self._mark.synchronize()
            self._mark.record()
        return time.perf_counter() - self._start
