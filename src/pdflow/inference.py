"""Run patches through a network: threads over patches on a CPU, batches on a GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdflow.fast import FastNetwork, Spans
from pdflow.model import PDFlow

GPU_BATCH = 64

WATCHED_PATCHES = 4
"""Patches on which the scales of affine couplings are watched before constant ones are skipped."""

Progress = Callable[[float], None]
Patches = NDArray[np.float64]


def best_device() -> str:
    """The device that is used where none is named."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def denoise_patches(
    model: PDFlow,
    patches: Patches,
    seed: int | None,
    progress: Progress,
    *,
    threads: int | None = None,
    skip_constant_scales: bool = True,
) -> Patches:
    """Clean patches (P, N, 3) from noisy ones in the network's frame.

    seed      None takes eps = 0; from a number, patch i draws its eps from `seed` and i alone,
              so the result does not depend on how patches are spread over threads or batches
    progress  is called with the number of patches done since the last call
    threads   on a CPU; by default one for each core that this process may use
    skip_constant_scales  on a CPU: where the scales of an affine coupling all but stand still on
              the first patches, take their mean for the others (docs/speed.md says what it does)
    """
    clean = np.empty_like(patches)
    device = next(model.parameters()).device
    if device.type == "cpu":
        _run_on_cpu(model, patches, clean, seed, progress, threads, skip_constant_scales)
        return clean
    for start in range(0, len(patches), GPU_BATCH):
        batch = torch.from_numpy(patches[start : start + GPU_BATCH]).float()
        eps = torch.stack([_eps(model, patch, seed, start + i) for i, patch in enumerate(batch)])
        with torch.inference_mode():
            result = model.denoise_patches(batch.to(device), eps.to(device))
        clean[start : start + len(batch)] = result.double().cpu().numpy()
        progress(len(batch))
    return clean


def _run_on_cpu(
    model: PDFlow,
    patches: Patches,
    clean: Patches,
    seed: int | None,
    progress: Progress,
    threads: int | None,
    skip_constant_scales: bool,
) -> None:
    """Fill `clean`. One thread per core and one core per thread: loops this small gain nothing
    from threads of their own and lose much when they fight for cores."""
    full = FastNetwork(model)

    def run(network: FastNetwork, index: int, spans: Spans | None = None) -> None:
        points = np.ascontiguousarray(patches[index], np.float32)
        eps = _eps(model, torch.from_numpy(points), seed, index).numpy()
        clean[index] = network(points, eps, spans)

    with ThreadPoolExecutor(threads or _available_cores()) as pool:
        network, done = full, 0
        if skip_constant_scales and full.is_affine:
            done = min(WATCHED_PATCHES, len(patches))
            watched: list[Spans] = [{} for _ in range(done)]
            for _ in pool.map(lambda i: run(full, i, watched[i]), range(done)):
                progress(1)
            network = full.with_constant_scales(watched)
        for _ in pool.map(lambda i: run(network, i), range(done, len(patches))):
            progress(1)


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _eps(model: PDFlow, patch: Tensor, seed: int | None, index: int) -> Tensor:
    """eps (N, D_a) of patch (N, 3). numpy promises that a SeedSequence never changes."""
    if seed is None:
        return patch.new_zeros(len(patch), model.config.augment_dims)
    state = np.random.SeedSequence([seed % 2**64, index]).generate_state(1, np.uint64)
    generator = torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))
    return model.sample_eps(patch[None], generator)[0]
