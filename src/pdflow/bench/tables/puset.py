"""Table 1: PUSet, Gaussian noise."""

from __future__ import annotations

from pdflow.bench.cases import Cell, Options
from pdflow.bench.score_layout import gaussian_cells, heldout_cells
from pdflow.bench.tables.table import Table

METRICS = ("cd", "p2m", "hd")
HELDOUT_METRICS = ("cd", "sq_p2s", "hd")
"""Training shapes have no mesh."""


def cells(options: Options) -> list[Cell]:
    """The published noisy clouds, or with `heldout` the same levels on held-out shapes."""
    if options.heldout:
        return heldout_cells(options, HELDOUT_METRICS)
    return gaussian_cells(options, METRICS)


TABLE = Table(
    "puset",
    "PUSet with Gaussian noise",
    "Error on the test shapes of PUSet, by resolution and level of Gaussian noise",
    "Table 1",
    "Every method gets the noisy points only, not the noise level. Learned methods of the "
    "literature choose their iterations by the known level.",
    cells,
)
