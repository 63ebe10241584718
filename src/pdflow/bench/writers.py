"""A grid as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pdflow.bench.layout import (
    MISSING,
    Block,
    Bold,
    Grid,
    Lines,
    Row,
    column_label,
    column_name,
    number,
)
from pdflow.bench.tables.table import Table
from pdflow.io import atomic_path

SECONDS = "CPU s"
SECONDS_NOTE = (
    f"{SECONDS} is CPU time per shape, summed over cores, without loading; where the load exceeds "
    "the number of cores, other programs ran at the same time. Rows without it ran on a GPU."
)


def write_all(folder: Path, table: Table, grid: Grid) -> list[Path]:
    """Write `TABLE.csv`, `TABLE.md` and `TABLE.tex`, and return their paths."""
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
    """One line per method and cell, in the units of the Markdown table."""
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
                        f"{row.seconds[block.name, cell]:.3g}"
                        if (block.name, cell) in row.seconds
                        else "",
                        row.shapes.get((block.name, cell), ""),
                        *(row.facts.get(name, "") for name in facts),
                    ]
                )
    return text.getvalue()


def markdown_text(table: Table, grid: Grid) -> str:
    """A whole table: what it shows, its blocks, how it was made, and from what."""
    origin = _listed([*provenance(grid), SECONDS_NOTE])
    return f"{markdown_section(table, grid)}\n\nProvenance:\n\n{origin}\n"


def markdown_section(table: Table, grid: Grid) -> str:
    """A table without its provenance."""
    parts = [f"## {table.title}", _opening(table, grid)]
    for title, lines in _sections(table, grid, lambda text: f"**{text}**"):
        heads, *rows = ([cell.replace("|", "/") for cell in line] for line in lines)
        rule = ["---"] + ["---:"] * (len(heads) - 1)
        body = "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *rows))
        parts.append(f"**{title}**\n\n{body}")
    parts.append(f"How it was made:\n\n{_listed([table.note, *_notes(grid)])}")
    return "\n\n".join(parts)


def latex_text(table: Table, grid: Grid) -> str:
    """A tabular for each block, with its caption as a comment."""
    parts = [f"% {table.title}. {_opening(table, grid)}"]
    parts += [f"% {note}" for note in (table.note, *_notes(grid), *provenance(grid), SECONDS_NOTE)]
    for title, (heads, *rows) in _sections(table, grid, lambda text: f"\\textbf{{{text}}}"):
        parts.append(f"% {title}")
        parts.append(f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}\n\\hline")
        parts.append(f"{_latex_line(heads)}\n\\hline")
        parts += [_latex_line(row) for row in rows]
        parts.append("\\hline\n\\end{tabular}")
    return "\n".join(parts) + "\n"


def _latex_line(cells: Iterable[str]) -> str:
    safe = (cell.replace("%", "\\%").replace("_", "\\_").replace("&", "\\&") for cell in cells)
    return " & ".join(safe) + r" \\"


def _sections(table: Table, grid: Grid, bold: Bold) -> list[tuple[str, Lines]]:
    """Titles and the lines below them: those of the table, or a section per block."""
    if table.sections is not None:
        return table.sections(grid, bold)
    return [(block.name, _lines(grid, block, bold)) for block in grid.blocks]


def _lines(grid: Grid, block: Block, bold: Bold) -> Lines:
    """Header and rows of a block as text, with the best measured values in bold."""
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
                best = grid.best(block, cell, column)
                is_best = row.source == "" and best is not None and value == best
                line.append(bold(number(value)) if is_best else number(value))
            line.append(number(row.seconds.get((block.name, cell))))
        lines.append(line)
    return lines


def _name(grid: Grid, row: Row, block: Block) -> str:
    """Name of a row, with the number of shapes if these are not those of the other rows.

    A method may have failed on some, or all may be others than those of the published means.
    """
    if row.source:
        return f"{row.method} ({row.source})"
    if others := grid.other_shapes(row, block):
        return f"{row.method} ({others})"
    places = [(block.name, cell) for cell in block.cells]
    counts = [row.shapes[place] for place in places if place in row.shapes] or [0]
    most = max(
        other.shapes.get((block.name, cell), 0) for other in grid.rows for cell in block.cells
    )
    return row.method if min(counts) == most else f"{row.method} ({min(counts)} of {most} shapes)"


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def provenance(grid: Grid) -> list[str]:
    """Weights, commands, commits and machines of the measured rows."""
    facts = []
    weights = {
        row.facts["weights"]: row.method for row in reversed(grid.rows) if "weights" in row.facts
    }
    if weights:
        named = ", ".join(f"{name} {digest}" for digest, name in reversed(weights.items()))
        facts.append(f"Weights (SHA-256, first digits): {named}.")
    loads: dict[str, list[float]] = {}
    for run in grid.runs:
        made = f"`{run.command}`: seed {run.seed}, commit {run.commit}, {run.machine}"
        loads.setdefault(made, []).append(run.load)
    return facts + [f"{made}, load {_range(found)} at the start." for made, found in loads.items()]


def _opening(table: Table, grid: Grid) -> str:
    """What a table shows, and which measured rows are best in its main column."""
    opening = f"{table.shows} (the paper's {table.source})." if table.source else f"{table.shows}."
    label = column_name(table.headline)
    wins = Counter(
        winner
        for block in grid.blocks
        for cell in block.cells
        if (winner := grid.winner(block, cell, table.headline)) is not None
    )
    if not wins:
        return opening
    if len(wins) == 1:
        (winner,) = wins
        where = f" in all {wins[winner]} cells" if wins[winner] > 1 else ""
        return f"{opening} Of the rows measured here, {winner} has the lowest {label}{where}."
    counts = ", ".join(f"{name} in {count}" for name, count in wins.most_common())
    return f"{opening} Lowest {label} of the rows measured here, by number of cells: {counts}."


def _notes(grid: Grid) -> list[str]:
    """How the measured rows were made, besides what the table says itself."""
    counts = sorted({count for row in grid.rows for count in row.shapes.values()})
    notes = [f"Means over {' to '.join(map(str, counts))} shapes, with equal weights."]
    same: dict[str, list[str]] = {}
    for row in grid.rows:
        if row.remarks:
            same.setdefault("; ".join(row.remarks), []).append(row.method)
    notes += [
        f"Passes x partitions (+ those of a coarser answer; shapes) of {', '.join(names)}: "
        f"{remarks}."
        for remarks, names in same.items()
    ]
    return notes


def _listed(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)
