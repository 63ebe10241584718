"""Points that the flow finds unlikely: outliers too near to a surface to be alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray

from pdflow.geometry.patches import cover
from pdflow.inference import Progress, network_frames, scaled, told_noise
from pdflow.islands import FEWEST_POINTS, split_islands
from pdflow.model import PDFlow
from pdflow.noise.estimate import estimate_noise

OVERLAP = 1.5
"""Patches that a point is in, on average: one look is nearly as good as several."""

BATCH = 8

CUT = 5.0
"""Robust deviations below the median of its patches at which a point is taken for an outlier."""

TOLD = 3.0
"""Times the noise that a network is told: it looks further, and strays do not pass for noise."""


def find_unlikely(
    model: PDFlow, points: NDArray[np.float64], progress: Progress
) -> NDArray[np.bool_]:
    """(M,): whether the flow gives a point of the cloud (M, 3) far less than its neighbours."""
    return np.asarray(likelihood_scores(model, points, progress) < -CUT)


def likelihood_scores(
    model: PDFlow, points: NDArray[np.float64], progress: Progress
) -> NDArray[np.float64]:
    """(M,): how much more likely a point of the cloud (M, 3) is than the others around it.

    progress  is called with the share (0 to 1) done since the last call

    What counts is the ELBO, Eq. (7), at eps = 0, in robust deviations from the median of the patch:
    how likely points are at all depends on the noise and on the shape. Of several patches the
    kindest counts: one that has an outlier as its seed finds everything unlikely. Islands are
    looked at alone; of points too few to be a surface nothing is said, which is 0.
    """
    if len(points) < FEWEST_POINTS:
        progress(1.0)
        return np.zeros(len(points))
    patches = cover(points, model.config.patch_points, OVERLAP)
    islands = split_islands(patches, len(points))
    if len(islands) > 1:
        apart = np.empty(len(points))
        for rows in islands:
            share = scaled(progress, len(rows) / len(points))
            apart[rows] = likelihood_scores(model, points[rows], share)
        return apart
    frames = network_frames(model, points, patches)
    noise = estimate_noise(points).sigma if model.config.noise_conditioning else 0.0
    sigma = told_noise(model, np.full(len(patches), TOLD * noise), frames)
    likelihoods = _likelihoods_of_all(model, frames.cut(points, patches.rows), sigma, progress)
    middle = np.median(likelihoods, axis=1, keepdims=True)
    spread = 1.4826 * np.median(np.abs(likelihoods - middle), axis=1, keepdims=True)
    scores = (likelihoods - middle) / np.maximum(spread, np.finfo(float).tiny)
    best = np.full(len(points), -np.inf)
    np.maximum.at(best, patches.rows.ravel(), scores.ravel())
    return best


def _likelihoods_of_all(
    model: PDFlow,
    patches: NDArray[np.float64],
    sigma: NDArray[np.float64] | None,
    progress: Progress,
) -> NDArray[np.float64]:
    """(P, N): `point_likelihoods` of patches (P, N, 3), a few at a time."""
    on_cpu = next(model.parameters()).device.type == "cpu"
    size = 1 if on_cpu else BATCH
    batches = torch.from_numpy(patches).float().split(size)
    noises = repeat(None) if sigma is None else torch.from_numpy(sigma).float().split(size)
    likelihoods = np.empty(patches.shape[:2])
    done = 0
    with _one_thread_each() as threads, ThreadPoolExecutor(threads if on_cpu else 1) as pool:
        for result in pool.map(partial(point_likelihoods, model), batches, noises):
            likelihoods[done : done + len(result)] = result
            done += len(result)
            progress(len(result) / len(patches))
    return likelihoods


@contextmanager
def _one_thread_each() -> Iterator[int]:
    """Keep torch to one thread in each thread of ours; yields how many it had.

    Products this small gain nothing from threads of their own, and lose ten times where these
    fight for cores. What one thread computes also has the same bits on any number of cores.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


@torch.inference_mode()
def point_likelihoods(
    model: PDFlow, patches: torch.Tensor, sigma: torch.Tensor | None = None
) -> NDArray[np.float64]:
    """(B, N): each point's share of the ELBO at eps = 0, for patches (B, N, 3).

    sigma  (B,) noise of the patches, for a network that is told it
    """
    device = next(model.parameters()).device
    placed, noise = patches.to(device), None if sigma is None else sigma.to(device)
    likelihoods: NDArray[np.float64] = (
        model.log_prob_points(placed, model.graph(placed), sigma=noise).double().cpu().numpy()
    )
    return likelihoods
