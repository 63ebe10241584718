"""Reproducible random numbers."""

from __future__ import annotations

import numpy as np

from pdflow.errors import PdflowError


def generator(seed: int) -> np.random.Generator:
    """The random number generator of a seed, 0 or any positive integer.

    >>> int(generator(7).integers(100)) == int(generator(7).integers(100))
    True
    """
    if not isinstance(seed, (int, np.integer)):
        raise PdflowError(f"The seed {seed!r} is no integer: give 0 or a positive one.")
    if seed < 0:
        raise PdflowError(f"The seed {seed} is negative: give 0 or a positive integer.")
    return np.random.default_rng(seed)
