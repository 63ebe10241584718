"""Clean clouds to train on: ScoreDenoise's folder layout, or any folder of clouds."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.geometry.frame import unit_sphere
from pdflow.io import FORMATS, read

SCORE_DENOISE = "PUNet/pointclouds/train"
"""Where ScoreDenoise's data keeps its training clouds, one folder per resolution."""


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
        return Shapes(kept), Shapes({k: self.clouds[k] for k in holdout})

    def all_clouds(self) -> list[NDArray[np.float64]]:
        """Every cloud of every shape."""
        return [cloud for name in sorted(self.clouds) for cloud in self.clouds[name]]


def read_shapes(folder: Path) -> Shapes:
    """All clean clouds under a folder; files of the same stem are one shape."""
    root = folder / SCORE_DENOISE if (folder / SCORE_DENOISE).is_dir() else folder
    suffixes = {suffix for fmt in FORMATS if fmt.points for suffix in fmt.suffixes}
    files = sorted(f for f in root.rglob("*") if f.suffix.lower() in suffixes)
    if not files:
        raise PdflowError(f"{folder} holds no clouds to train on: give a folder with clean clouds.")
    clouds: dict[str, list[NDArray[np.float64]]] = {}
    for file in files:
        points = read(file).points
        clouds.setdefault(file.stem, []).append(unit_sphere(points).apply(points))
    return Shapes(clouds)
