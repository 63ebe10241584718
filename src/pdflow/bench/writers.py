"""A grid as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from pathlib import Path

from pdflow.bench.layout import Block, Grid, Row, column_label
from pdflow.bench.tables.table import Table
from pdflow.io import atomic_path

SECONDS = "CPU s"
MISSING = "-"


def write_all(folder: Path, table: Table, grid: Grid) -> list[Path]:
    """Write `TABLE.csv`, `TABLE.md` and `TABLE.tex`; the paths."""
    texts = {
        "csv": csv_text(grid),
        "md": markdown_text(table, grid),
        "tex": latex_text(table, grid),
    }
    paths = []
    for suffix, text in texts.items():
        path = folder / f"{table.name}.{suffix}"
        with atomic_path(path) as temporary:
            Path(temporary).write_text(text)
        paths.append(path)
    return paths


def csv_text(grid: Grid) -> str:
    """One line per method and cell, with values in the units of the Markdown table."""
    text = io.StringIO()
    columns = list(dict.fromkeys(column for block in grid.blocks for column in block.columns))
    heads = [column_label(column) for column in columns]
    facts = list(dict.fromkeys(name for row in grid.rows for name in row.facts))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["method", "group", "source", "block", "cell", *heads, SECONDS, "shapes", *facts]
    )
    for row in grid.rows:
        for block in grid.blocks:
            for cell in block.cells:
                values = [row.values.get((block.name, cell, column)) for column in columns]
                if not any(value is not None for value in values):
                    continue
                writer.writerow(
                    [
                        row.method,
                        row.group,
                        row.source,
                        block.name,
                        cell,
                        *("" if value is None else f"{value:.6g}" for value in values),
                        f"{row.seconds[block.name, cell]:.3g}" if row.seconds else "",
                        row.shapes.get((block.name, cell), ""),
                        *(row.facts.get(name, "") for name in facts),
                    ]
                )
    return text.getvalue()


def markdown_text(table: Table, grid: Grid) -> str:
    """Title, a table for each block, and what must be known to judge it."""
    parts = [f"## {table.title}", f"The paper's {table.source}. {table.note}"]
    for block in grid.blocks:
        lines = _lines(grid, block, lambda text: f"**{text}**")
        heads, *rows = ([cell.replace("|", "/") for cell in line] for line in lines)
        rule = ["---"] + ["---:"] * (len(heads) - 1)
        body = "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *rows))
        parts.append(f"**{block.name}**\n\n{body}")
    parts += ["\n".join(f"- {note}" for note in _notes(grid))]
    return "\n\n".join(parts) + "\n"


def latex_text(table: Table, grid: Grid) -> str:
    """A tabular for each block, with its caption as a comment."""
    parts = [f"% {table.title}. The paper's {table.source}. {table.note}"]
    parts += [f"% {note}" for note in _notes(grid)]
    for block in grid.blocks:
        heads, *rows = _lines(grid, block, lambda text: f"\\textbf{{{text}}}")
        parts.append(f"% {block.name}")
        parts.append(f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}\n\\hline")
        parts.append(f"{_latex_line(heads)}\n\\hline")
        parts += [_latex_line(row) for row in rows]
        parts.append("\\hline\n\\end{tabular}")
    return "\n".join(parts) + "\n"


def _latex_line(cells: Iterable[str]) -> str:
    safe = (cell.replace("%", "\\%").replace("_", "\\_").replace("&", "\\&") for cell in cells)
    return " & ".join(safe) + r" \\"


def _lines(grid: Grid, block: Block, bold: Callable[[str], str]) -> list[list[str]]:
    """Heads and rows of a block as text, the best measured values in bold."""
    rows = [row for row in grid.rows if block.name in row.blocks]
    with_parameters = any("parameters" in row.facts and row.group == "published" for row in rows)
    heads = ["method"] + (["parameters"] if with_parameters else [])
    several = len(block.cells) > 1
    for cell in block.cells:
        names = [*map(column_label, block.columns), SECONDS]
        heads += [f"{cell}: {names[0]}" if several else names[0], *names[1:]]
    lines = [heads]
    for row in rows:
        line = [_name(grid, row, block)]
        if with_parameters:
            line.append(f"{row.facts['parameters']:,}" if "parameters" in row.facts else MISSING)
        for cell in block.cells:
            for column in block.columns:
                value = row.values.get((block.name, cell, column))
                best = row.source == "" and value == grid.best(block, cell, column)
                line.append(
                    MISSING if value is None else bold(_number(value)) if best else _number(value)
                )
            seconds = row.seconds.get((block.name, cell))
            line.append(MISSING if seconds is None else _number(seconds))
        lines.append(line)
    return lines


def _name(grid: Grid, row: Row, block: Block) -> str:
    """A row's head: where a method failed on some shapes, on how many it did not."""
    if row.source:
        return f"{row.method} ({row.source})"
    places = [(block.name, cell) for cell in block.cells]
    counts = [row.shapes[place] for place in places if place in row.shapes] or [0]
    most = max(
        other.shapes.get((block.name, cell), 0) for other in grid.rows for cell in block.cells
    )
    return row.method if min(counts) == most else f"{row.method} ({min(counts)} of {most} shapes)"


def _number(value: float) -> str:
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _notes(grid: Grid) -> list[str]:
    """How the measured rows were made."""
    counts = sorted({count for row in grid.rows for count in row.shapes.values()})
    notes = [f"Means over {' to '.join(map(str, counts))} shapes, each weighing the same."]
    weights = {
        row.facts["weights"]: row.method for row in reversed(grid.rows) if "weights" in row.facts
    }
    if weights:
        named = ", ".join(f"{name} {digest}" for digest, name in reversed(weights.items()))
        notes.append(f"Weights (SHA-256, first digits): {named}.")
    notes += [
        f"{row.method}, passes x parts (shapes): {'; '.join(row.remarks)}."
        for row in grid.rows
        if row.remarks
    ]
    loads: dict[str, list[float]] = {}
    for run in grid.runs:
        made = f"`{run.command}`: seed {run.seed}, commit {run.commit}, {run.machine}"
        loads.setdefault(made, []).append(run.load)
    notes += [f"{made}, load {_range(found)} at the start." for made, found in loads.items()]
    if any(row.seconds for row in grid.rows):
        notes.append(
            f"{SECONDS}: time of all cores together, per shape, without loading; measured while "
            "other programs ran where the load is above the number of cores."
        )
    return notes
