"""Supplement E.2: a simulated LiDAR scanner."""

from __future__ import annotations

from pdflow.bench.cases import Case, Cell, Options, percent
from pdflow.bench.score_layout import test_mesh, test_shapes
from pdflow.bench.tables.table import Table
from pdflow.noise.lidar import simulate_lidar

METRICS = ("cd", "p2m", "hd")
LEVEL = 0.01
BEAMS, AZIMUTHS = 36, 144
"""Of each of six heads: about 10K returns from a shape of PUSet."""


def cells(options: Options) -> list[Cell]:
    """One cell per level, 1 % by default."""
    return [_cell(options, level) for level in options.levels or (LEVEL,)]


def _cell(options: Options, level: float) -> Cell:
    def load(shape: str) -> Case:
        mesh = test_mesh(options.data, shape)
        counts = {"beams": BEAMS, "azimuths": AZIMUTHS, "seed": options.seed}
        noisy = simulate_lidar(mesh, level=level, **counts)
        clean = simulate_lidar(mesh, level=0.0, range_step=0.0, angle_step=0.0, **counts)
        return Case(noisy.points, clean.points, mesh)

    shapes = test_shapes(options.data, options.shapes)
    return Cell("LiDAR", percent(level), METRICS, shapes, load)


TABLE = Table(
    "lidar",
    "PUSet meshes under a simulated LiDAR",
    "Error on simulated LiDAR scans of the meshes of PUSet",
    "supplement, table of simulated LiDAR noise",
    "The scanner is `pdflow noise --kind lidar` (six heads, 5K to 21K returns per shape); the "
    "ground truth is the same scan without errors. The paper does not publish its scanner "
    "settings, so its rows cannot be compared with ours.",
    cells,
)
