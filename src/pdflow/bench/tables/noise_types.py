"""Supplement E.2: noise that the networks were not trained on."""

from __future__ import annotations

from pdflow.bench.cases import Cell, Options, percent, thousands
from pdflow.bench.score_layout import LEVELS, noise_cell, resolutions
from pdflow.bench.tables.table import Table

METRICS = ("cd", "p2m", "hd")
KINDS = {
    "anisotropic": "non-isotropic Gaussian",
    "unidirectional": "uni-directional",
    "uniform": "uniform",
    "discrete": "discrete",
}
"""Kind of `pdflow.noise` -> its name in the paper."""


def cells(options: Options) -> list[Cell]:
    """Every kind at every level and resolution."""
    return [
        noise_cell(
            options,
            points,
            level,
            kind,
            METRICS,
            f"{name}, {thousands(points)}",
            percent(level),
        )
        for kind, name in KINDS.items()
        for points in resolutions(options)
        for level in options.levels or LEVELS
    ]


TABLE = Table(
    "noise-types",
    "PUSet with other noise",
    "supplement, table of noise types",
    "Noise of `pdflow noise` with the settings of ScoreDenoise's supplement, drawn anew with the "
    "seed below: the paper's draws are not published.",
    cells,
)
