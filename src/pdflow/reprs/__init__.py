"""How clouds, meshes and reports show themselves: one line of text, and a table in notebooks."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(10_000, "point"), counted(1, "face"), counted(2, "vertex")
    ('10,000 points', '1 face', '2 vertices')
    """
    plural = "vertices" if noun == "vertex" else f"{noun}{'es' if noun.endswith('ss') else 's'}"
    return f"{count:,} {noun if count == 1 else plural}"


def extent(points: NDArray[np.float64]) -> str:
    """The size of a cloud (M, 3) along x, y and z, as exact as two digits of the largest.

    >>> extent(np.array([[0, 0, 0], [2.07, 2.1, 0.58]]))
    '2.1 x 2.1 x 0.6'
    """
    finite = points[np.isfinite(points).all(axis=1)]
    if not len(finite):
        return "no extent"
    sizes = finite.max(axis=0) - finite.min(axis=0)
    largest = float(sizes.max())
    decimals = max(0, 1 - math.floor(math.log10(largest))) if largest > 0 else 0
    return " x ".join(f"{size:,.{decimals}f}" for size in sizes)


def html_table(title: str, rows: Iterable[Sequence[Any]], header: Sequence[str] = ()) -> str:
    """A table for a notebook; everything in it is shown as text.

    >>> html_table("Cloud", [("points", 2)])
    '<table><caption>Cloud</caption><tr><td>points</td><td>2</td></tr></table>'
    """
    lines = [_row("th", header)] if header else []
    lines += [_row("td", row) for row in rows]
    return f"<table><caption>{html.escape(title)}</caption>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[Any]) -> str:
    inner = "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells)
    return f"<tr>{inner}</tr>"
