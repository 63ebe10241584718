"""Send noisy clouds through a network once, to train its second pass on what comes out.

What a network makes of a single patch is not what its second pass sees: there the patches of a
whole cloud have been blended, which leaves less noise, and smoother errors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.noise.estimate import estimate_noise
from pdflow.pipeline import Denoiser, Told
from pdflow.schedule import make_plan
from pdflow.train.data import SURROUNDINGS
from pdflow.train.passed import PassedPool


def pass_once(
    model: PDFlow,
    clouds: Sequence[NDArray[np.float64]],
    copies: int,
    seeds: int,
    levels: tuple[float, float],
    seed: int,
) -> PassedPool:
    """Add Gaussian noise to each cloud (M, 3), denoise it once, cut around `seeds` points.

    model   the network whose second pass is to be trained, as it is now
    copies  how often each cloud gets noise; those with too little for a second pass are left out
    levels  smallest and largest noise
    seed    of noise and places
    """
    random = np.random.default_rng(seed)
    config, device = model.config, next(model.parameters()).device
    denoiser = Denoiser(model)
    size = min(SURROUNDINGS * config.patch_points, min(map(len, clouds)))
    moved, clean, sigma = [], [], []
    for cloud in [cloud for cloud in clouds for _ in range(copies)]:
        level = random.uniform(*levels)
        noisy = cloud + level * random.normal(size=cloud.shape)
        picks = random.integers(len(cloud), size=seeds)
        noise = estimate_noise(noisy)
        if make_plan(noisy, noise, config).passes < 2:
            continue
        told = Told(noise, config.told_noise[1])
        points = denoiser.one_pass(noisy, told, len(noisy), 1, lambda share: None)
        place, origin = (torch.from_numpy(p).float().to(device) for p in (points, cloud))
        for some in torch.from_numpy(picks).to(device).split(256):
            rows = torch.cdist(place[some], place).topk(size, largest=False).indices
            moved.append(place[rows])
            clean.append(origin[rows])
            sigma.append(torch.full((len(some),), level, device=device))
    if not moved:
        raise PdflowError(
            "No cloud has noise for a second pass: raise [data] levels, or leave out passed."
        )
    return PassedPool(torch.cat(moved), torch.cat(clean), torch.cat(sigma), config.patch_points)
