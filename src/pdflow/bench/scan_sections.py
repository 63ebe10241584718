"""The table of scans as text: a row per case, a column per method, and whether our goals hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pdflow.bench.layout import (
    MISSING,
    Bold,
    Grid,
    Lines,
    Row,
    column_label,
    column_name,
    number,
)
from pdflow.bench.scan_cases import FILTER

NEAR = 1.05
"""How much worse than the best peer a value may be."""
HIGHER = ("recall_far", "recall")
"""Columns in which more is better."""
ESTIMATES = {"estimate": (0.7, 1.3), "estimate_correlated": (1 / 1.6, 1.6)}
"""Least and most that the estimate may be of the true noise."""

Place = tuple[str, str]


@dataclass(frozen=True)
class Section:
    """Columns that are shown together, for the cells that have the first of them.

    without  cells with one of these columns are not shown here
    compared columns that must not be worse than the noisy input and `near` times the best peer
    limits   column -> least and most that is good, in every scene
    of_filter  columns that peers owe to the statistical filter before them: shown for it alone
    """

    title: str
    columns: tuple[str, ...]
    without: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    limits: dict[str, tuple[float, float]] = field(default_factory=dict)
    near: float = NEAR
    of_filter: tuple[str, ...] = ()

    def shown(self, row: Row) -> tuple[str, ...]:
        """The columns to show of a row."""
        smooths = row.group == "peer" and row.method != FILTER
        return tuple(c for c in self.columns if not (smooths and c in self.of_filter))


SECTIONS = (
    Section(
        "Errors",
        ("cd", "p2m_one_way", "largest_move"),
        without=("recall", "mean_move"),
        compared=("cd", "p2m_one_way"),
        limits=ESTIMATES,
    ),
    Section("Depth camera", ("rms_ratio",), limits={"rms_ratio": (0, 0.6)}),
    Section(
        "Tile of terrain",
        ("bias", "ground_ratio", "building_ratio", "tree_move", "wire_move"),
        limits={
            "bias": (0, 1),
            "ground_ratio": (0, 0.3),
            "building_ratio": (0, 0.3),
            "tree_move": (0, 1),
            "wire_move": (0, 1),
        },
    ),
    Section(
        "Outliers",
        ("recall_far", "recall", "taken", "cd"),
        compared=("recall", "cd"),
        limits={"recall_far": (0.95, 1), "taken": (0, 0.01), **ESTIMATES},
        near=1.0,
        of_filter=("recall_far", "recall", "taken"),
    ),
    Section(
        "Clean input",
        ("mean_move", "cd"),
        limits={"mean_move": (0, 0.02), "cd": (0, 0.01)},
    ),
)


def scan_sections(grid: Grid, bold: Bold) -> list[tuple[str, Lines]]:
    """Titles and lines of the sections that have results."""
    found = [(section, _places(grid, section)) for section in SECTIONS]
    return [(_title(s), _lines(grid, s, places, bold)) for s, places in found if places]


def _title(section: Section) -> str:
    return f"{section.title}: {', '.join(map(column_label, section.columns))}"


def _places(grid: Grid, section: Section) -> list[Place]:
    def has(place: Place, column: str) -> bool:
        return any((*place, column) in row.values for row in grid.rows)

    return [
        place
        for place in grid.places()
        if has(place, section.columns[0]) and not any(has(place, c) for c in section.without)
    ]


def _lines(grid: Grid, section: Section, places: list[Place], bold: Bold) -> Lines:
    rows = [r for r in grid.rows if any((*p, section.columns[0]) in r.values for p in places)]
    judges_noise = bool(section.limits.keys() & ESTIMATES)
    heads = ["case", "noise", *(["estimate / sigma"] if judges_noise else [])]
    lines = [[*heads, *(row.method for row in rows), "goals"]]
    for place in places:
        line = [*place, *([_estimate(rows, place)] if judges_noise else [])]
        for row in rows:
            values = [_shown(rows, row, place, column, bold) for column in section.shown(row)]
            line.append(" / ".join(values) if set(values) != {MISSING} else MISSING)
        lines.append([*line, goals(rows, section, place)])
    return lines


def _estimate(rows: list[Row], place: Place) -> str:
    """The estimated noise over the true one, which is the same for all methods."""
    found = [_value(row, place, column) for row in rows for column in ESTIMATES]
    return number(next((value for value in found if value is not None), None))


def _shown(rows: list[Row], row: Row, place: Place, column: str, bold: Bold) -> str:
    value = _value(row, place, column)
    best = _best([r for r in rows if r.group != "reference"], place, column)
    is_best = row.group != "reference" and best is not None and value == best[0]
    return bold(number(value)) if is_best else number(value)


def goals(rows: list[Row], section: Section, place: Place) -> str:
    """Which of our goals the first of our rows misses in a cell, or that all hold.

    Every scene has to keep the limits, because a mean hides that one is far above and one below;
    other methods are compared by their means.
    """
    ours = [
        row for row in rows if row.group == "ours" and (*place, section.columns[0]) in row.values
    ]
    if not ours:
        return MISSING
    missed = []
    for column, (least, most) in section.limits.items():
        low, high = ours[0].ranges.get((*place, column), (least, most))
        if low < least:
            missed.append(f"{column_name(column)} {number(low)}, below {number(least)}")
        if high > most:
            missed.append(f"{column_name(column)} {number(high)}, above {number(most)}")
    for column in section.compared:
        missed += _losses(rows, ours[0], place, column, section.near)
    return "; ".join(missed) or "hold"


@dataclass(frozen=True)
class Comparison:
    """Our value in a column of a cell, over the better of the noisy input and the best peer."""

    ratio: float
    place: Place
    column: str


def worst_cells(grid: Grid, count: int) -> list[Comparison]:
    """The cells in which our first row compares worst with others, by their worst column."""
    rows, found = list(grid.rows), []
    others = [row for row in rows if row.group == "peer" or row.method == "noisy"]
    for section in SECTIONS:
        for place in _places(grid, section):
            ours = next((r for r in rows if r.group == "ours" and _value(r, place, "cd")), None)
            ratios = [
                Comparison(value / best[0], place, column)
                for column in section.compared
                if column not in HIGHER and ours and (value := _value(ours, place, column))
                if (best := _best(others, place, column)) and best[0] > 0
            ]
            found += [max(ratios, key=lambda each: each.ratio)] if ratios else []
    return sorted(found, key=lambda each: -each.ratio)[:count]


def _losses(rows: list[Row], ours: Row, place: Place, column: str, near: float) -> list[str]:
    """What our value loses to: the noisy input, and the best peer."""
    value = _value(ours, place, column)
    references = [row for row in rows if row.method == "noisy"]
    peers = [row for row in rows if row.group == "peer"]
    losses = []
    for others, factor in ((references, 1.0), (peers, near)):
        best = _best(others, place, column)
        if value is None or best is None:
            continue
        worse = value < best[0] / factor if column in HIGHER else value > best[0] * factor
        if worse:
            times = value / best[0] if best[0] else math.inf
            losses.append(f"{column_name(column)} {times:.2f} x {best[1]}")
    return losses


def _best(rows: list[Row], place: Place, column: str) -> tuple[float, str] | None:
    """The best value of a column and its method."""
    values = [(v, row.method) for row in rows if (v := _value(row, place, column)) is not None]
    return (max if column in HIGHER else min)(values, default=None)


def _value(row: Row, place: Place, column: str) -> float | None:
    return row.values.get((*place, column))
