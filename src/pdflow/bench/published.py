"""Published numbers: `published.toml`, each row with its source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib


SHAPES = {
    "PUSet": (
        "Icosahedron", "Octahedron", "camel", "casting", "chair", "coverrear_Lp", "cow", "duck",
        "eight", "elephant", "elk", "fandisk", "genus3", "horse", "kitten", "moai", "pig",
        "quadric", "sculpt", "star",
    )
}  # fmt: skip
"""Shapes that published means are over, by the name that tables give as their `shapes`."""


@dataclass(frozen=True)
class Published:
    """A row of a published table.

    values      (cell label, column) -> value in the unit that tables print
    parameters  number of parameters of the network, if published
    """

    method: str
    source: str
    values: dict[tuple[str, str], float]
    parameters: int | None = None


@cache
def _published() -> dict[str, Any]:
    text = resources.files("pdflow.bench").joinpath("published.toml").read_text()
    values: dict[str, Any] = tomllib.loads(text)
    return values


def published_shapes(table: str) -> frozenset[str]:
    """The shapes that published means of a table are over; empty if their names are not known.

    >>> len(published_shapes("puset")), len(published_shapes("scans"))
    (20, 0)
    """
    return frozenset(SHAPES.get(_published().get(table, {}).get("shapes"), ()))


@cache
def published_rows(table: str) -> tuple[Published, ...]:
    """All published rows of a table.

    >>> published_rows("puset")[0].values["10K 1 %", "cd"]
    3.47
    """
    known: dict[str, Any] = _published().get(table, {"rows": []})
    return tuple(_row(row, known) for row in known["rows"])


def _row(row: dict[str, Any], table: dict[str, Any]) -> Published:
    factors = table.get("factors", [1.0] * len(table["columns"]))
    values = {
        (cell, column): float(value) * factor
        for cell, group in zip(table["cells"], row["values"], strict=True)
        for column, factor, value in zip(table["columns"], factors, group, strict=True)
        if not math.isnan(value)
    }
    return Published(row["method"], row["source"], values, row.get("parameters"))
