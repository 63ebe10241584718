"""Supplement E.2: noise that the networks were not trained on."""

from __future__ import annotations

from pdflow.bench.cases import Cell, Options, percent, thousands
from pdflow.bench.score_layout import NOISE_NAMES, noise_cell, settings
from pdflow.bench.tables.table import Table

METRICS = ("cd", "p2m", "hd")
KINDS = ("anisotropic", "unidirectional", "uniform", "discrete")


def cells(options: Options) -> list[Cell]:
    """Every kind at every level and resolution."""
    return [
        noise_cell(
            options,
            points,
            level,
            kind,
            METRICS,
            block=f"{NOISE_NAMES[kind]}, {thousands(points)}",
            name=percent(level),
        )
        for kind in KINDS
        for points, level in settings(options)
    ]


TABLE = Table(
    "noise-types",
    "PUSet with other noise",
    "Error on PUSet under four kinds of noise that are not isotropic Gaussian",
    "supplement, table of noise types",
    "Noise comes from `pdflow noise` with the settings of ScoreDenoise's supplement, drawn with "
    "the seed of the run: the paper's draws are not published.",
    cells,
)
