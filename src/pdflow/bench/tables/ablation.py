"""What the tables of trained variants share: their cells, and how they were made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pdflow.bench.cases import Cell, Options
from pdflow.bench.score_layout import LEVELS, gaussian_cells
from pdflow.bench.tables.table import Table, noisy_input
from pdflow.bench.variants import SIZES, Training, Variant

METRICS = ("cd", "p2m")
POINTS = 10_000
LEVEL = 0.02
NOTE = (
    "Every network of a size was trained on the same number of patches "
    f"({' or '.join(f'{size.batch} per step ({name})' for name, size in SIZES.items())}; its name "
    "gives the steps), fewer than the paper's 1.2 million or more: compare the rows with each "
    "other, not with the published ones. Small networks have D_h = 24, a quarter of the paper's "
    "neighbours and patches of 128 points, centred and of one radius. One pass over the whole "
    "cloud, rows kept."
)


def ablation_table(
    name: str,
    title: str,
    shows: str,
    source: str,
    variants: Callable[[Training], list[Variant]],
    levels: tuple[float, ...] = (LEVEL,),
    note: str = "",
) -> Table:
    """A table of variants on 10K points of PUSet; those of the paper's size at all levels.

    note  remarks on this table, added to NOTE
    """

    def cells(options: Options) -> list[Cell]:
        own = LEVELS if options.size == "paper" else levels
        chosen = replace(options, points=options.points or (POINTS,), levels=options.levels or own)
        return gaussian_cells(chosen, METRICS)

    return Table(name, title, shows, source, f"{NOTE} {note}".strip(), cells, noisy_input, variants)
