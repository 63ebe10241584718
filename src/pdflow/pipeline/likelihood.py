"""Outliers by likelihood: points that the flow finds far less likely than their neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdflow.backends import Progress
from pdflow.backends.likelihood import point_likelihoods
from pdflow.geometry.components import FEWEST_POINTS
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.model import PDFlow
from pdflow.noise.estimate import estimate_noise
from pdflow.pipeline.large import Layout
from pdflow.pipeline.patching import Cutting, conditioning_noise, cut_pieces, network_frames

OVERLAP = 1.5
"""Patches that a point is in, on average: more of them find hardly more outliers."""

CUT = 5.0
"""Robust deviations below the median of its patches at which a point is an outlier."""

CONDITIONING_SCALE = 3.0
"""Factor on the noise that conditions the network, so that outliers do not pass for noise."""


def find_unlikely_points(
    model: PDFlow,
    search: NeighborSearch,
    progress: Progress,
    layout: Layout | None = None,
    sigma: float = 0.0,
) -> NDArray[np.bool_]:
    """(M,): whether a point of the cloud is an outlier by its likelihood."""
    return np.asarray(likelihood_scores(model, search, progress, layout, sigma) < -CUT)


def likelihood_scores(
    model: PDFlow,
    search: NeighborSearch,
    progress: Progress,
    layout: Layout | None = None,
    sigma: float = 0.0,
) -> NDArray[np.float64]:
    """(M,): how much more likely a point of the cloud is than the others around it.

    progress  is called with the share (0 to 1) done since the last call
    layout    of the points of a large cloud, and `sigma`, the noise of all of it

    The score is the ELBO, Eq. (7), at eps = 0, in robust deviations from the median of the patch:
    absolute likelihoods depend on the noise and the shape. Of several patches the highest score
    counts, because a patch around an outlier makes all of its points unlikely. Each connected
    component is judged on its own; points of components that are too small score 0.
    """
    scores = np.zeros(len(search))
    if len(search) < FEWEST_POINTS:
        progress(1.0)
        return scores
    cutting = Cutting(model.config.patch_points, OVERLAP)
    for piece in cut_pieces(search, cutting, layout=layout):
        share = len(piece.rows) / len(search)
        if piece.patches is None or not len(piece.patches):
            progress(share)
            continue
        points, patches = piece.search.points, piece.patches
        frames = network_frames(model, points, patches, piece.layout)
        noise = sigma
        if model.config.noise_conditioning and (piece.layout is None or piece.layout.cells is None):
            noise = estimate_noise(piece.search).sigma
        likelihoods = point_likelihoods(
            model,
            frames.cut(points, patches.rows),
            conditioning_noise(model, np.full(len(patches), CONDITIONING_SCALE * noise), frames),
            lambda done, each=share / len(patches): progress(done * each),  # type: ignore[misc]
        )
        best = np.full(len(points), -np.inf)
        np.maximum.at(best, patches.rows.ravel(), _scores(likelihoods).ravel())
        scores[piece.rows] = best
    return scores


def _scores(likelihoods: NDArray[np.float64]) -> NDArray[np.float64]:
    """Likelihoods (P, N) in robust deviations from the median of their patch."""
    middle = np.median(likelihoods, axis=1, keepdims=True)
    spread = 1.4826 * np.median(np.abs(likelihoods - middle), axis=1, keepdims=True)
    return np.asarray((likelihoods - middle) / np.maximum(spread, np.finfo(float).tiny))
