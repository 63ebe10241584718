"""eps of the augmentation: drawn for each patch from a seed and the patch's number alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class EpsDraws:
    """Standard normal numbers for each patch of a run.

    They are drawn on the CPU by every backend, so a seed means the same on every device, and do
    not depend on how patches are spread over threads or batches.
    """

    seed: int

    @torch.inference_mode()
    def fill(self, patch: int, eps: Tensor) -> None:
        """Draw eps (N, D_a), a contiguous float32 tensor on the CPU, of patch number `patch`."""
        # numpy promises that a SeedSequence never changes.
        state = np.random.SeedSequence([self.seed % 2**64, patch]).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))
        torch.randn(eps.shape, generator=generator, out=eps)
