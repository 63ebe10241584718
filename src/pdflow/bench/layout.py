"""Results as a grid: a row per method, cells in blocks, published rows below."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from pdflow.bench.published import Published, published_rows, published_shapes
from pdflow.bench.records import Record, Run, Store
from pdflow.metrics.suite import METRICS

GROUPS = ("ours", "yours", "peer", "reference", "published")
"""Groups of rows from top to bottom."""
MISSING = "-"
Bold = Callable[[str], str]
Lines = list[list[str]]
"""A header and rows of text."""
LABELS = {
    "cd": "CD",
    "hd": "HD",
    "p2m": "P2M",
    "sq_p2s": "P2S",
    "p2m_one_way": "P2M one-way",
    "rms_ratio": "RMS / input",
    "largest_move": "largest move / sigma",
    "mean_move": "mean move / spacing",
    "recall_far": "recall beyond 4 sigma",
    "recall": "recall",
    "taken": "surface points taken",
    "ground_ratio": "ground RMS / input",
    "building_ratio": "building RMS / input",
    "bias": "bias in mm",
    "tree_move": "tree move / sigma",
    "wire_move": "wire move / sigma",
    "estimate": "estimate / sigma",
    "estimate_correlated": "estimate / correlated sigma",
}
_EXPONENTS = {
    **{column: metric.exponent for metric in METRICS.values() for column in metric.columns},
    "p2m_one_way": -4,
}
"""Powers of ten that columns are shown in; all others are plain numbers."""


@dataclass(frozen=True)
class Block:
    """Cells that are shown side by side, with the same columns."""

    name: str
    cells: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A method's means.

    values   (block, cell, column) -> mean over shapes, in the unit that tables print
    seconds  (block, cell) -> mean of CPU seconds
    shapes   (block, cell) -> number of shapes in the mean
    """

    method: str
    group: str
    source: str
    values: dict[tuple[str, str, str], float]
    seconds: dict[tuple[str, str], float] = field(default_factory=dict)
    shapes: dict[tuple[str, str], int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    """Blocks that contain it, even if it failed there."""
    ranges: dict[tuple[str, str, str], tuple[float, float]] = field(default_factory=dict)
    """Least and largest of the shapes whose mean `values` has."""
    names: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    """(block, cell) -> the shapes in the mean."""


@dataclass(frozen=True)
class Grid:
    """A whole table; `runs` made its measured rows.

    published_shapes  that the means of its published rows are over, if their names are known
    """

    blocks: tuple[Block, ...]
    rows: tuple[Row, ...]
    runs: tuple[Run, ...]
    published_shapes: frozenset[str] = frozenset()

    def other_shapes(self, row: Row, block: Block) -> str:
        """What a measured mean is over, if the published means beside it are over other shapes."""
        published = [r for r in self.rows if r.group == "published" and block.name in r.blocks]
        found = [row.names[block.name, c] for c in block.cells if (block.name, c) in row.names]
        others = [names for names in found if names != self.published_shapes]
        if not (self.published_shapes and published and others):
            return ""
        fewest, every = min(others, key=len), len(self.published_shapes)
        if fewest < self.published_shapes:
            return f"{len(fewest)} of the {every} published shapes"
        shapes = "shape" if len(fewest) == 1 else "shapes"
        return f"{len(fewest)} {shapes}, not the {every} published ones"

    def row(self, method: str) -> Row | None:
        """The measured row of a method."""
        found = [row for row in self.rows if (row.method, row.source) == (method, "")]
        return found[0] if found else None

    def places(self) -> list[tuple[str, str]]:
        """Every cell as (block, cell)."""
        return [(block.name, cell) for block in self.blocks for cell in block.cells]

    def best(self, block: Block, cell: str, column: str) -> float | None:
        """The least value of measured methods, references left out."""
        return min(self._measured(block, cell, column).values(), default=None)

    def winner(self, block: Block, cell: str, column: str) -> str | None:
        """The measured method with the least value, references left out."""
        values = self._measured(block, cell, column)
        return min(values, key=lambda name: values[name], default=None)

    def _measured(self, block: Block, cell: str, column: str) -> dict[str, float]:
        return {
            row.method: row.values[block.name, cell, column]
            for row in self.rows
            if row.group not in ("reference", "published")
            and (block.name, cell, column) in row.values
        }


def column_label(column: str) -> str:
    """A column's head, with the power of ten it is shown in.

    >>> column_label("cd"), column_label("uniformity_0.4"), column_label("taken")
    ('CD e-4', 'Uni 0.4 % e-3', 'surface points taken')
    """
    exponent = _EXPONENTS.get(column, 0)
    return f"{column_name(column)} e{exponent}" if exponent else column_name(column)


def column_name(column: str) -> str:
    """What tables call a column.

    >>> column_name("sq_p2s")
    'P2S'
    """
    kind, _, size = column.rpartition("_")
    return f"Uni {size} %" if kind == "uniformity" else LABELS.get(column, column)


def number(value: float | None) -> str:
    """A value as written in tables.

    >>> number(12.345), number(0.1), number(None)
    ('12.35', '0.100', '-')
    """
    if value is None:
        return MISSING
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def build_grid(table: str, store: Store) -> Grid:
    """The grid of a table, from the results of the newest settings of each method."""
    latest = store.latest()
    records = [
        record
        for key, record in store.records.items()
        if latest[key.method] == (key.settings, key.seed)
    ]
    blocks = _blocks(records)
    methods = sorted(latest, key=lambda name: store.first_seen.index(name))
    rows = [
        _measured_row(name, [r for r in records if r.key.method == name], blocks)
        for name in methods
    ]
    rows += [row for p in published_rows(table) if (row := _published_row(p, blocks)) is not None]
    used = {record.run for record in records}
    runs = tuple(run for key, run in store.runs.items() if key in used)
    return Grid(tuple(blocks), tuple(in_order(rows)), runs, published_shapes(table))


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Rows by their group, then networks that were trained alike, by the setting that they vary.

    >>> names = "D_m = 35 (small)", "D_m = 4 (small)", "D_m = 8 (paper)", "noisy"
    >>> rows = [Row(name, "reference" if name == "noisy" else "ours", "", {}) for name in names]
    >>> [row.method for row in in_order(rows)]
    ['D_m = 4 (small)', 'D_m = 35 (small)', 'D_m = 8 (paper)', 'noisy']
    """
    trainings = list(dict.fromkeys(row.method.partition(" (")[2] for row in rows))

    def place(row: Row) -> tuple[int, int, float]:
        name, _, training = row.method.partition(" (")
        setting = re.search(r" = (\d+)", name)
        value = float(setting[1]) if setting else inf
        return GROUPS.index(row.group), trainings.index(training), value

    return sorted(rows, key=place)


def _blocks(records: Iterable[Record]) -> list[Block]:
    cells: dict[str, dict[str, None]] = {}
    columns: dict[str, dict[str, None]] = {}
    for record in records:
        cells.setdefault(record.key.block, {})[record.key.cell] = None
        columns.setdefault(record.key.block, {}).update(dict.fromkeys(record.values))
    return [
        Block(name, tuple(sorted(cells[name], key=_order)), tuple(columns[name])) for name in cells
    ]


def _order(cell: str) -> tuple[float, str]:
    """Sorts levels by value; other names keep their order."""
    number, _, unit = cell.partition(" ")
    return (float(number), unit) if unit == "%" else (0.0, "")


def _measured_row(method: str, records: list[Record], blocks: Iterable[Block]) -> Row:
    values: dict[tuple[str, str, str], float] = {}
    ranges: dict[tuple[str, str, str], tuple[float, float]] = {}
    seconds: dict[tuple[str, str], float] = {}
    shapes: dict[tuple[str, str], int] = {}
    names: dict[tuple[str, str], frozenset[str]] = {}
    remarks: dict[tuple[str, str], dict[str, int]] = {}
    for place in dict.fromkeys((r.key.block, r.key.cell) for r in records):
        some = [r for r in records if (r.key.block, r.key.cell) == place]
        done = [r for r in some if r.values]
        for r in some:
            counts = remarks.setdefault(place, {})
            counts[r.remark] = counts.get(r.remark, 0) + 1
        if not done:
            continue
        for column in dict.fromkeys(column for r in done for column in r.values):
            each = [r.values[column] for r in done if column in r.values]
            unit = 10.0 ** _EXPONENTS.get(column, 0)
            values[place[0], place[1], column] = float(np.mean(each)) / unit
            ranges[place[0], place[1], column] = (min(each) / unit, max(each) / unit)
        timed = [r.cpu for r in done if r.facts.get("device") != "cuda"]
        if timed:  # what a GPU leaves to the cores is not comparable
            seconds[place] = float(np.mean(timed))
        shapes[place] = len(done)
        names[place] = frozenset(r.key.shape for r in done)
    return Row(
        method,
        records[-1].group,
        "",
        values,
        seconds,
        shapes,
        records[-1].facts,
        tuple(_remarks(remarks, blocks)),
        tuple(dict.fromkeys(r.key.block for r in records)),
        ranges,
        names,
    )


def _remarks(
    remarks: dict[tuple[str, str], dict[str, int]], blocks: Iterable[Block]
) -> Iterable[str]:
    """What was remarked in each cell, in the order of the table."""
    for block in blocks:
        for cell in block.cells:
            counts = remarks.get((block.name, cell), {})
            said = [f"{remark} ({count})" for remark, count in sorted(counts.items()) if remark]
            if said:
                yield f"{block.name} {cell}: {', '.join(said)}"


def _published_row(published: Published, blocks: Iterable[Block]) -> Row | None:
    """A published row, cut to the cells that were measured; None if it has none of them."""
    values = {
        (block.name, cell, column): published.values[label, column]
        for block in blocks
        for cell in block.cells
        for column in block.columns
        if ((label := f"{block.name} {cell}"), column) in published.values
    }
    facts = {} if published.parameters is None else {"parameters": published.parameters}
    if not values:
        return None
    places = tuple(dict.fromkeys(block for block, _, _ in values))
    return Row(published.method, "published", published.source, values, facts=facts, blocks=places)
