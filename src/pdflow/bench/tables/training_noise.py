"""Supplement E.3: networks trained on one noise, measured on another."""

from __future__ import annotations

from pdflow.bench.cases import Cell, Options, thousands
from pdflow.bench.score_layout import noise_cell
from pdflow.bench.tables.ablation import LEVEL, NOTE, POINTS
from pdflow.bench.tables.table import Table, noisy_input
from pdflow.bench.variants import Training, Variant, variant

METRICS = ("cd", "p2m", "hd")
KINDS = {
    "gaussian": "isotropic Gaussian",
    "anisotropic": "non-isotropic Gaussian",
    "uniform": "uniform",
}
"""Kind of `pdflow.noise` -> its name in the paper."""


def variants(training: Training) -> list[Variant]:
    """The paper's network trained on each kind."""
    return [variant(f"trained on {name}", training, noise=kind) for kind, name in KINDS.items()]


def cells(options: Options) -> list[Cell]:
    """Each kind at 2 %, on 10K points."""
    return [
        noise_cell(options, points, level, kind, METRICS, thousands(points), name)
        for points in options.points or (POINTS,)
        for level in (options.levels or (LEVEL,))[:1]
        for kind, name in KINDS.items()
    ]


TABLE = Table(
    "training-noise",
    "Trained on one noise, measured on another",
    "supplement, table of training noise",
    NOTE,
    cells,
    noisy_input,
    variants,
)
