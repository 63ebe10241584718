"""eps of the augmentation: drawn for each patch from a seed and the patch's number alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class EpsDraws:
    """Standard normal numbers for each patch of a run.

    seed   of the run
    names  (P,) numbers that stand for the patches, if their places in the run do not

    They are drawn on the CPU by every backend, so a seed means the same on every device, and do
    not depend on how patches are spread over threads or batches.
    """

    seed: int
    names: NDArray[np.int64] | None = field(default=None, compare=False)

    @torch.inference_mode()
    def fill(self, patch: int, eps: Tensor) -> None:
        """Draw eps (N, D_a), a contiguous float32 tensor on the CPU, of patch number `patch`."""
        name = patch if self.names is None else int(self.names[patch])
        # numpy promises that a SeedSequence never changes.
        state = np.random.SeedSequence([self.seed % 2**64, name]).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))
        torch.randn(eps.shape, generator=generator, out=eps)
