"""Run patches through a network: threads over patches on a CPU, batches on a GPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdflow.fast import FastNetwork, Spans
from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.patches import Patches, PatchFrames, patch_frames
from pdflow.model import PDFlow
from pdflow.parallel import available_cores

GPU_BATCH = 256
"""Patches that go through the network together: larger batches are not faster any more."""

GPU_BYTES_PER_POINT = 24_000
"""Memory of a GPU that a point of a batch may take; where less is free, batches are smaller."""

WATCHED_PATCHES = 4
"""Patches on which the scales of affine couplings are watched before constant ones are skipped."""

Progress = Callable[[float], None]
Points = NDArray[np.float64]


def scaled(progress: Progress, scale: float) -> Progress:
    """The progress of a part whose whole is `scale` of all."""
    return lambda share: progress(scale * share)


def network_frames(model: PDFlow, points: Points, patches: Patches) -> PatchFrames:
    """What brings patches of a cloud (M, 3) to the place, size and density that a model knows."""
    return patch_frames(
        points,
        patches,
        unit_sphere(points),
        model.inference.patch_radius,
        model.config.patch_points,
        model.inference.centred,
    )


def told_noise(model: PDFlow, sigma: Points, frames: PatchFrames) -> Points | None:
    """(P,): the noise of patches (P,) in their own frames; None where the network is not told."""
    return np.asarray(sigma / frames.scale) if model.config.noise_conditioning else None


def denoise_patches(
    model: PDFlow,
    patches: Points,
    seed: int | None,
    progress: Progress,
    *,
    sigma: NDArray[np.float64] | None = None,
    threads: int | None = None,
    skip_constant_scales: bool = True,
) -> Points:
    """Clean patches (P, N, 3) from noisy ones in the network's frame.

    seed      None takes eps = 0; from a number, patch i draws its eps from `seed` and i alone,
              so the result does not depend on how patches are spread over threads or batches
    progress  is called with the number of patches done since the last call
    sigma     (P,) noise in that frame, for a network that is told it (`told_noise`)
    threads   on a CPU; by default one for each core that this process may use
    skip_constant_scales  on a CPU: where the scales of an affine coupling all but stand still on
              the first patches, take their mean for the others (docs/speed.md says what it does)
    """
    clean = np.empty_like(patches)
    device = next(model.parameters()).device
    if device.type == "cpu":
        _run_on_cpu(model, patches, clean, seed, progress, sigma, threads, skip_constant_scales)
    else:
        size = _batch_that_fits(device, patches.shape[1])
        _run_in_batches(model, patches, clean, seed, progress, size, sigma)
    return clean


def _run_in_batches(
    model: PDFlow,
    patches: Points,
    clean: Points,
    seed: int | None,
    progress: Progress,
    size: int,
    sigma: NDArray[np.float64] | None = None,
) -> None:
    """Fill `clean`, `size` patches at a time, on the model's device.

    A batch is copied and launched while the one before is being worked on; that one's result is
    waited for and stored afterwards.
    """
    device = next(model.parameters()).device
    running: deque[tuple[slice, Tensor, torch.cuda.Event | None]] = deque()
    with ThreadPoolExecutor(available_cores()) as pool, torch.inference_mode():
        for start in range(0, len(patches), size):
            part = slice(start, start + size)
            batch = torch.from_numpy(patches[part]).float()
            eps = None
            if seed is not None:
                draws = pool.map(partial(_eps, model, seed=seed), batch, count(start))
                eps = _to_device(torch.stack(list(draws)), device)
            noise = None
            if sigma is not None:
                noise = _to_device(torch.from_numpy(sigma[part]).float(), device)
            result = model.denoise_patches(_to_device(batch, device), eps, noise)
            running.append((part, *_from_device(result)))
            if len(running) > 1:
                _store(*running.popleft(), clean, progress)
        while running:
            _store(*running.popleft(), clean, progress)


def _to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy that the host does not wait for; the memory is pinned, which makes that possible."""
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _from_device(result: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    """A copy on the host, and the event after which it is there."""
    if result.device.type != "cuda":
        return result.cpu(), None
    copy = torch.empty(result.shape, dtype=result.dtype, pin_memory=True)
    copy.copy_(result, non_blocking=True)
    done = torch.cuda.Event()
    done.record()
    return copy, done


def _store(
    part: slice,
    result: Tensor,
    done: torch.cuda.Event | None,
    clean: Points,
    progress: Progress,
) -> None:
    if done is not None:
        done.synchronize()
    clean[part] = result.numpy()
    progress(len(result))


def _batch_that_fits(device: torch.device, points: int) -> int:
    """Points of so many points that can go through the network together."""
    if device.type != "cuda":
        return GPU_BATCH
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(1, min(GPU_BATCH, (free + unused) // (GPU_BYTES_PER_POINT * points)))


def _run_on_cpu(
    model: PDFlow,
    patches: Points,
    clean: Points,
    seed: int | None,
    progress: Progress,
    sigma: NDArray[np.float64] | None,
    threads: int | None,
    skip_constant_scales: bool,
) -> None:
    """Fill `clean`. One thread per core and one core per thread: loops this small gain nothing
    from threads of their own and lose much when they fight for cores."""
    full = FastNetwork(model)

    def run(network: FastNetwork, index: int, spans: Spans | None = None) -> None:
        points = np.ascontiguousarray(patches[index], np.float32)
        eps = _eps(model, torch.from_numpy(points), index, seed).numpy()
        clean[index] = network(points, eps, spans, None if sigma is None else sigma[index])

    with ThreadPoolExecutor(threads or available_cores()) as pool:
        network, done = full, 0
        if skip_constant_scales and full.is_affine:
            done = min(WATCHED_PATCHES, len(patches))
            watched: list[Spans] = [{} for _ in range(done)]
            for _ in pool.map(lambda i: run(full, i, watched[i]), range(done)):
                progress(1)
            network = full.with_constant_scales(watched)
        for _ in pool.map(lambda i: run(network, i), range(done, len(patches))):
            progress(1)


def _eps(model: PDFlow, patch: Tensor, index: int, seed: int | None) -> Tensor:
    """eps (N, D_a) of patch (N, 3). numpy promises that a SeedSequence never changes."""
    if seed is None:
        return patch.new_zeros(len(patch), model.config.augment_dims)
    state = np.random.SeedSequence([seed % 2**64, index]).generate_state(1, np.uint64)
    generator = torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))
    return model.sample_eps(patch[None], generator)[0]
