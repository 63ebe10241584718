"""Supplement E.1: DMRSet."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdflow.bench.cases import Case, Cell, Options, Points, percent, some_shapes, thousands
from pdflow.bench.tables.table import Table
from pdflow.errors import PdflowError
from pdflow.io import read
from pdflow.noise.models import add_noise

METRICS = ("cd", "sq_p2s")
FOLDER = "gts_full_test_50k"
RESOLUTIONS = (20_000, 50_000)
LEVELS = (0.01, 0.02, 0.025, 0.03)


def cells(options: Options) -> list[Cell]:
    """Every level at 20K and 50K points."""
    folder = options.data / FOLDER
    if not folder.is_dir():
        folder = options.data
    shapes = some_shapes(sorted(path.stem for path in folder.glob("*.xyz")), options.shapes)
    if not shapes:
        raise PdflowError(
            f"{options.data} holds no clean clouds: give DMRDenoise's folder with "
            f"{FOLDER}/NAME.xyz and NAME.normal."
        )
    return [
        _cell(options, folder, shapes, points, level)
        for points in options.points or RESOLUTIONS
        for level in options.levels or LEVELS
    ]


def _cell(
    options: Options, folder: Path, shapes: tuple[str, ...], points: int, level: float
) -> Cell:
    def load(shape: str) -> Case:
        from pdflow.geometry.farthest import farthest_point_sampling

        clean = read(folder / f"{shape}.xyz").points
        normals = _normals(folder / f"{shape}.normal", len(clean))
        if len(clean) > points:
            rows = farthest_point_sampling(clean, points)
            clean, normals = clean[rows], None if normals is None else normals[rows]
        return Case(add_noise(clean, "gaussian", level, options.seed), clean, normals=normals)

    return Cell(thousands(points), percent(level), METRICS, shapes, load, points / 10_000)


def _normals(path: Path, count: int) -> Points | None:
    """Normals (M, 3) from the file beside a cloud, if there is one."""
    if not path.exists():
        return None
    try:
        normals = np.loadtxt(path, ndmin=2)
    except ValueError as error:
        raise PdflowError(
            f"{path} is not a table of numbers ({error}): repair it, or remove it."
        ) from error
    if normals.shape != (count, 3):
        raise PdflowError(f"{path} has shape {normals.shape}, not ({count}, 3): a row per point.")
    return normals


TABLE = Table(
    "dmrset",
    "DMRSet with Gaussian noise",
    "Error on the test shapes of DMRSet, by resolution and level of Gaussian noise",
    "supplement, table of DMRSet",
    "Noise is drawn with the seed of the run. The 20K points are sampled evenly from the released "
    "50K, as in the paper. P2S uses squared distances, as the paper's magnitudes show.",
    cells,
)
