"""Table 2: how evenly points are spread."""

from __future__ import annotations

from dataclasses import replace

from pdflow.bench.cases import Cell, Options
from pdflow.bench.score_layout import gaussian_cells
from pdflow.bench.tables.table import Table

METRICS = ("cd", "uniformity")
POINTS = 10_000


def cells(options: Options) -> list[Cell]:
    """10K points of Table 1."""
    return gaussian_cells(replace(options, points=options.points or (POINTS,)), METRICS)


TABLE = Table(
    "uniformity",
    "Uniformity at 10K points",
    "Table 2",
    "Uniformity in geodesic disks of 0.4 to 1.2 % of the area, after projection onto the mesh; the "
    "mean over shapes. The paper does not say whether it prints a mean.",
    cells,
)
