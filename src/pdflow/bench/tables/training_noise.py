"""Supplement E.3: networks trained on one noise, measured on another."""

from __future__ import annotations

from pdflow.bench.cases import Cell, Options, thousands
from pdflow.bench.score_layout import NOISE_NAMES, noise_cell
from pdflow.bench.tables.ablation import LEVEL, NOTE, POINTS
from pdflow.bench.tables.table import Table, noisy_input
from pdflow.bench.variants import Training, Variant, variant

METRICS = ("cd", "p2m", "hd")
KINDS = ("gaussian", "anisotropic", "uniform")


def variants(training: Training) -> list[Variant]:
    """The paper's network trained on each kind."""
    return [variant(f"trained on {NOISE_NAMES[kind]}", training, noise=kind) for kind in KINDS]


def cells(options: Options) -> list[Cell]:
    """Each kind at 2 %, on 10K points."""
    return [
        noise_cell(options, points, level, kind, METRICS, thousands(points), NOISE_NAMES[kind])
        for points in options.points or (POINTS,)
        for level in (options.levels or (LEVEL,))[:1]
        for kind in KINDS
    ]


TABLE = Table(
    "training-noise",
    "Trained on one noise, measured on another",
    "Networks trained on one kind of noise, each measured on three kinds",
    "supplement, table of training noise",
    NOTE,
    cells,
    noisy_input,
    variants,
)
