"""The compiled backend: one thread per core, one patch per thread."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from pdflow.backends import Points, Progress
from pdflow.backends.compiled.flow import Spans
from pdflow.backends.compiled.network import CompiledNetwork
from pdflow.backends.draws import EpsDraws
from pdflow.model import PDFlow
from pdflow.parallel import available_cores, thread_pool

WATCHED_PATCHES = 4
"""Patches on which the scales of affine couplings are watched before constant ones are skipped."""


class CompiledBackend:
    """A network as compiled loops, prepared once.

    threads  by default one for each core that this process may use
    skip_constant_scales  where the scales of an affine coupling hardly change on the first
             patches, use their mean for the others (docs/speed.md has the effect)

    One thread per core and one core per thread: loops this small gain nothing from threads of
    their own, and lose much when these compete for cores.
    """

    def __init__(
        self, model: PDFlow, threads: int | None = None, skip_constant_scales: bool = True
    ) -> None:
        self.network = CompiledNetwork(model)
        self.augment_dims = model.config.augment_dims
        self.threads = threads or available_cores()
        self.skip_constant_scales = skip_constant_scales and self.network.is_affine

    def run(
        self,
        patches: Points,
        eps: EpsDraws | None,
        sigma: NDArray[np.float64] | None,
        progress: Progress,
    ) -> Points:
        """`Backend.run`."""
        clean = np.empty(patches.shape, np.float32)

        def denoise(network: CompiledNetwork, patch: int, spans: Spans | None = None) -> None:
            points = np.ascontiguousarray(patches[patch], np.float32)
            drawn = torch.zeros(len(points), self.augment_dims)
            if eps is not None:
                eps.fill(patch, drawn)
            noise = None if sigma is None else sigma[patch]
            clean[patch] = network(points, drawn.numpy(), spans, noise)

        pool, network, done = thread_pool(self.threads), self.network, 0
        if self.skip_constant_scales:
            done = min(WATCHED_PATCHES, len(patches))
            watched: list[Spans] = [{} for _ in range(done)]
            for _ in pool.map(lambda i: denoise(network, i, watched[i]), range(done)):
                progress(1)
            network = network.with_constant_scales(watched)
        for _ in pool.map(lambda i: denoise(network, i), range(done, len(patches))):
            progress(1)
        return clean
