"""The torch backend: batches of patches on the network's own device."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise, zip_longest

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdflow.backends import Points, Progress
from pdflow.backends.draws import EpsDraws
from pdflow.model import PDFlow
from pdflow.parallel import available_cores

BATCH = 256
"""Patches in a batch: larger ones are no faster on a large GPU."""

BYTES_PER_POINT = 24_000
"""GPU memory that a point of a batch may take; batches shrink where less is free."""


class TorchBackend:
    """`PDFlow.denoise_patches` in batches.

    batch  patches in a batch; by default BATCH, or as many as fit into the memory of a GPU
    """

    def __init__(self, model: PDFlow, batch: int | None = None) -> None:
        self.model = model
        self.device = next(model.parameters()).device
        self.batch = batch

    def run(
        self,
        patches: Points,
        eps: EpsDraws | None,
        sigma: NDArray[np.float64] | None,
        progress: Progress,
    ) -> Points:
        """`Backend.run`.

        The host prepares a batch while the device works on the one before.
        """
        clean = np.empty_like(patches)
        size = self.batch or self._batch_that_fits(patches.shape[1])
        running: deque[tuple[slice, Tensor, torch.cuda.Event | None]] = deque()

        def store() -> None:
            part, result, ready = running.popleft()
            if ready is not None:
                ready.synchronize()
            clean[part] = result.numpy()
            progress(len(result))

        parts = [
            slice(start, min(start + size, len(patches))) for start in range(0, len(patches), size)
        ]
        with ThreadPoolExecutor(_drawing_threads()) as pool, torch.inference_mode():
            draws = _Draws(self, eps, patches.shape[1], pool)
            for part, following in zip_longest(parts, parts[1:]):
                drawn = draws.take(part, following)
                noisy = self._to_device(torch.from_numpy(patches[part]).float())
                noise = None
                if sigma is not None:
                    noise = self._to_device(torch.from_numpy(sigma[part]).float())
                result = self.model.denoise_patches(noisy, drawn, noise)
                running.append((part, *self._from_device(result)))
                if len(running) > 1:
                    store()
            while running:
                store()
        return clean

    def _to_device(self, tensor: Tensor) -> Tensor:
        """A copy that the host does not wait for, which needs pinned memory."""
        if self.device.type == "cuda":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    def _from_device(self, result: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
        """A copy on the host, and the event after which it is complete."""
        if self.device.type != "cuda":
            return result.cpu(), None
        copy = torch.empty(result.shape, dtype=result.dtype, pin_memory=True)
        copy.copy_(result, non_blocking=True)
        ready = torch.cuda.Event()
        ready.record()
        return copy, ready

    def _batch_that_fits(self, points: int) -> int:
        """Patches of so many points that go through the network together."""
        if self.device.type != "cuda":
            return BATCH
        free, _ = torch.cuda.mem_get_info(self.device)
        reserved = torch.cuda.memory_reserved(self.device)
        unused = reserved - torch.cuda.memory_allocated(self.device)
        return max(1, min(BATCH, (free + unused) // (BYTES_PER_POINT * points)))


def _drawing_threads() -> int:
    """Half of the cores, which is enough: a `Deferred` call may need the other half, and the thread
    that feeds the device must never wait for a core."""
    return max(1, available_cores() // 2)


class _Draws:
    """eps of batches, drawn by threads while the batch before is on the device."""

    def __init__(
        self, backend: TorchBackend, eps: EpsDraws | None, points: int, pool: ThreadPoolExecutor
    ) -> None:
        self.backend, self.eps, self.points, self.pool = backend, eps, points, pool
        self.ahead: tuple[Tensor, list[Future[None]]] | None = None
        on_gpu = backend.device.type == "cuda"
        self.stream = torch.cuda.Stream(backend.device) if on_gpu else None

    def take(self, part: slice, following: slice | None) -> Tensor | None:
        """eps (B, N, D_a) of a batch on the device; that of the following one is begun."""
        if self.eps is None:
            return None
        drawn, jobs = self.ahead or self._begin(part)
        self.ahead = None if following is None else self._begin(following)
        for job in jobs:
            job.result()
        return self._upload(drawn)

    def _upload(self, drawn: Tensor) -> Tensor:
        """A copy on the device, made beside the batch that it is working on.

        eps is most of what a batch sends: on the stream of the network the copy would wait for the
        batch before, and the next one for the copy.
        """
        if self.stream is None:
            return drawn.to(self.backend.device)
        network = torch.cuda.current_stream(self.backend.device)
        with torch.cuda.stream(self.stream):
            eps = drawn.to(self.backend.device, non_blocking=True)
        network.wait_stream(self.stream)
        eps.record_stream(network)
        return eps

    def _begin(self, part: slice) -> tuple[Tensor, list[Future[None]]]:
        count = part.stop - part.start
        shape = (count, self.points, self.backend.model.config.augment_dims)
        drawn = torch.empty(shape, pin_memory=self.backend.device.type == "cuda")
        ends = np.linspace(0, count, _drawing_threads() + 1).astype(int).tolist()
        jobs = [
            self.pool.submit(self._fill, part.start + first, drawn[first:last])
            for first, last in pairwise(ends)
        ]
        return drawn, jobs

    def _fill(self, first: int, drawn: Tensor) -> None:
        assert self.eps is not None
        for patch, eps in enumerate(drawn, first):
            self.eps.fill(patch, eps)
