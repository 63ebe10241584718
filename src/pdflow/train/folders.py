"""Read shapes from folders: ScoreDenoise's layout, or any folder of clouds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.geometry.frame import unit_sphere
from pdflow.io import FORMATS, read
from pdflow.train.shapes import Shapes

SCORE_DENOISE = "PUNet/pointclouds/train"
"""Where ScoreDenoise's data keeps its training clouds, one folder per resolution."""


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
