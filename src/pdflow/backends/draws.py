"""eps of the augmentation: drawn for each patch from a seed and the patch's number alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class EpsDraws:
    """Standard normal numbers for each patch of a run.

    seed   of the run
    names  (P,) numbers that stand for the patches, if their places in the run do not

    A patch has a key, made of seed and name, and each number of a patch is a function of the key
    and its place (`pdflow.kernels.normal`). So a seed means the same on every device, up to
    rounding, and numbers do not depend on how patches are spread over threads or batches.
    """

    seed: int
    names: NDArray[np.int64] | None = field(default=None, compare=False)

    def keys(self, first: int, last: int) -> NDArray[np.uint64]:
        """Keys (last - first,) of the patches from number `first` to before `last`."""
        return np.array([self._key(patch) for patch in range(first, last)], np.uint64)

    def fill(self, patch: int, eps: Tensor) -> None:
        """Draw eps (N, D_a), a contiguous float32 tensor on the CPU, of patch number `patch`."""
        from pdflow.kernels.normal import cpu

        cpu.fill(self._key(patch), eps.view(-1).numpy())

    def _key(self, patch: int) -> np.uint64:
        name = patch if self.names is None else int(self.names[patch])
        # Always four words of 32 bits: a SeedSequence cannot tell a missing one from zero. numpy
        # promises that it never changes.
        entropy = [*divmod(self.seed % 2**64, 2**32), *divmod(name % 2**64, 2**32)]
        key: np.uint64 = np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]
        return key
