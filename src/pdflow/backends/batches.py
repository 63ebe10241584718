"""The torch backend: batches of patches on the network's own device."""

from __future__ import annotations

from collections import deque

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdflow.backends import Points, Progress
from pdflow.backends.draws import EpsDraws
from pdflow.kernels.normal import normal
from pdflow.model import PDFlow

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
        clean = np.empty(patches.shape, np.float32)
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
        with torch.inference_mode():
            for part in parts:
                drawn = None if eps is None else self._draw(eps, part, patches.shape[1])
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

    def _draw(self, eps: EpsDraws, part: slice, points: int) -> Tensor:
        """eps (B, N, D_a) of a batch, drawn on the device: only keys are sent there."""
        keys = torch.from_numpy(eps.keys(part.start, part.stop).view(np.int64))
        return normal(self._to_device(keys), (points, self.model.config.augment_dims))

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
