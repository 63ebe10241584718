"""One run in several processes: each works on part of every batch, gradients are averaged."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from pdflow.config import FlowConfig, InferenceConfig
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.train.data import Batch


class Workers:
    """The processes of a run, this one being number `rank` of `count`.

    Every process draws the same whole batch from the same random state, and process r keeps rows
    r, r + count, ... of it. The number of processes changes only the order of sums, and the
    statistics of batch normalisation, which every process computes for itself.
    """

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count = rank, count

    @staticmethod
    def join(device: str) -> Workers:
        """Join the processes that `torchrun` started; without it, this process is the only one."""
        if not (dist.is_available() and dist.is_torchelastic_launched()):
            return Workers()
        if device.startswith("cuda"):
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
        return Workers(dist.get_rank(), dist.get_world_size())

    def leave(self) -> None:
        """Leave the group of processes."""
        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()

    @property
    def first(self) -> bool:
        """Whether this process writes files and messages for all."""
        return self.rank == 0

    def part(self, batch: Batch) -> Batch:
        """The rows of a batch that this process works on."""
        if len(batch.noisy) % self.count:
            raise PdflowError(
                f"A batch of {len(batch.noisy)} patches cannot be divided among {self.count} "
                "processes: choose [optim] batch as a multiple of their number."
            )
        return batch[self.rank :: self.count]

    def own_rows(self, first: int) -> int:
        """How many of the first rows of a whole batch this process works on."""
        return len(range(self.rank, first, self.count))

    def average_(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their means over all processes, in one message."""
        if self.count == 1:
            return
        flat = flattened(tensors)
        dist.all_reduce(flat)
        flat /= self.count
        fill_(tensors, flat)

    def agree(self, values: Sequence[float], device: torch.device) -> list[float]:
        """The values of the first process, for all processes: clocks and rounding differ."""
        if self.count == 1:
            return list(values)
        shared = torch.tensor(values, dtype=torch.float64, device=device)
        dist.broadcast(shared, 0)
        result: list[float] = shared.tolist()
        return result


def flattened(tensors: Sequence[Tensor]) -> Tensor:
    """All values of the tensors, one after the other, as a copy (n,)."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def fill_(tensors: Sequence[Tensor], flat: Tensor) -> None:
    """Write values (n,), as `flattened` returns them, back into the tensors."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    torch._foreach_copy_(list(tensors), [p.view_as(t) for p, t in zip(parts, tensors, strict=True)])


class DividedPDFlow(PDFlow):
    """A network that works on part of a batch, and draws eps as if it had the whole batch."""

    def __init__(self, config: FlowConfig, inference: InferenceConfig, workers: Workers) -> None:
        super().__init__(config, inference)
        self.workers = workers

    def sample_eps(
        self, points: Tensor, generator: torch.Generator | None = None, shared: bool = False
    ) -> Tensor:
        """eps (B, N, D_a) of the rows that this process works on."""
        batch, *rest = points.shape
        whole = points.new_empty(()).expand(batch * self.workers.count, *rest)
        return super().sample_eps(whole, generator, shared)[self.workers.rank :: self.workers.count]
