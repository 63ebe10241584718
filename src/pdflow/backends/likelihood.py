"""The likelihood of single points, from the torch network on any device."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray

from pdflow.backends import Points, Progress
from pdflow.model import PDFlow

BATCH = 8
"""Patches that go through the network together on a GPU."""


def point_likelihoods(
    model: PDFlow, patches: Points, sigma: NDArray[np.float64] | None, progress: Progress
) -> NDArray[np.float64]:
    """(P, N): each point's share of the ELBO, Eq. (7), at eps = 0, for patches (P, N, 3).

    sigma     (P,) noise of the patches in their frame, for networks with noise conditioning
    progress  is called with the number of patches done since the last call
    """
    on_cpu = next(model.parameters()).device.type == "cpu"
    size = 1 if on_cpu else BATCH
    batches = torch.from_numpy(patches).float().split(size)
    noises = repeat(None) if sigma is None else torch.from_numpy(sigma).float().split(size)
    likelihoods = np.empty(patches.shape[:2])
    done = 0
    with _one_torch_thread() as threads, ThreadPoolExecutor(threads if on_cpu else 1) as pool:
        for result in pool.map(partial(_batch_likelihoods, model), batches, noises):
            likelihoods[done : done + len(result)] = result
            done += len(result)
            progress(len(result))
    return likelihoods


@torch.inference_mode()
def _batch_likelihoods(
    model: PDFlow, patches: torch.Tensor, sigma: torch.Tensor | None
) -> NDArray[np.float64]:
    """`point_likelihoods` (B, N) of one batch (B, N, 3)."""
    device = next(model.parameters()).device
    placed, noise = patches.to(device), None if sigma is None else sigma.to(device)
    likelihoods: NDArray[np.float64] = (
        model.log_prob_points(placed, model.graph(placed), sigma=noise).double().cpu().numpy()
    )
    return likelihoods


@contextmanager
def _one_torch_thread() -> Iterator[int]:
    """Keep torch to one thread in each thread of ours; yields how many it had.

    Products this small gain nothing from threads of their own, and take ten times as long when
    these compete for cores. The result of one thread also has the same bits on any number of
    cores.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)
