"""Clean clouds to train on, by shape."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError


class Shapes:
    """Clean clouds by shape, each in its unit sphere.

    clouds  shape name -> clouds (M, 3) of that shape, one per resolution
    digest  SHA-256 of names and coordinates: what exactly was trained on
    """

    def __init__(self, clouds: dict[str, list[NDArray[np.float64]]]) -> None:
        self.clouds = clouds
        digest = hashlib.sha256()
        for name in sorted(clouds):
            digest.update(name.encode())
            for cloud in clouds[name]:
                digest.update(cloud.astype(np.float32).tobytes())
        self.digest = digest.hexdigest()

    def split(self, holdout: tuple[str, ...]) -> tuple[Shapes, Shapes]:
        """Shapes to train on, and those held out for validation."""
        missing = sorted(set(holdout) - set(self.clouds))
        if missing:
            raise PdflowError(f"Held-out shape {missing[0]!r} is not among the training shapes.")
        kept = {k: v for k, v in self.clouds.items() if k not in holdout}
        if not kept:
            raise PdflowError("All shapes are held out: leave some to train on.")
        return Shapes(kept), Shapes({k: self.clouds[k] for k in holdout})

    def all_clouds(self) -> list[NDArray[np.float64]]:
        """Every cloud of every shape."""
        return [cloud for name in sorted(self.clouds) for cloud in self.clouds[name]]
