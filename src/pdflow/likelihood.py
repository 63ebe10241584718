"""Points that the flow finds unlikely: outliers too near to a surface to be alone."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.patches import cover, patch_frames
from pdflow.inference import Progress
from pdflow.model import PDFlow

OVERLAP = 1.5
"""Patches that a point is in, on average: one look is nearly as good as several."""

BATCH = 8

CUT = 4.0
"""Robust deviations below the median of its patches at which a point is taken for an outlier."""


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
    kindest counts: one that has an outlier as its seed finds everything unlikely.
    """
    config = model.config
    patches = cover(points, config.patch_points, OVERLAP)
    frames = patch_frames(
        points,
        patches,
        unit_sphere(points),
        config.patch_radius,
        config.patch_points,
        config.centred,
    )
    inputs = torch.from_numpy(frames.cut(points, patches.rows)).float()
    scores = np.empty(patches.rows.shape)
    done = 0
    for batch in inputs.split(BATCH):
        likelihoods = point_likelihoods(model, batch)
        middle = np.median(likelihoods, axis=1, keepdims=True)
        spread = 1.4826 * np.median(np.abs(likelihoods - middle), axis=1, keepdims=True)
        tiny = np.finfo(float).tiny
        scores[done : done + len(batch)] = (likelihoods - middle) / np.maximum(spread, tiny)
        done += len(batch)
        progress(len(batch) / len(inputs))
    best = np.full(len(points), -np.inf)
    np.maximum.at(best, patches.rows.ravel(), scores.ravel())
    return best


@torch.inference_mode()
def point_likelihoods(model: PDFlow, patches: torch.Tensor) -> NDArray[np.float64]:
    """(B, N): each point's share of the ELBO at eps = 0, for patches (B, N, 3)."""
    placed = patches.to(next(model.parameters()).device)
    likelihoods: NDArray[np.float64] = (
        model.log_prob_points(placed, model.graph(placed)).double().cpu().numpy()
    )
    return likelihoods
