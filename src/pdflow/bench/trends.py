"""The paper's claims about its design, judged by what was measured here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from pdflow.bench.layout import Grid, Row

SAME = 0.01
"""Relative difference of CD below which two results count as the same."""
UNCONVERGED = 0.5
"""A network that leaves this share of the noise in CD has not converged."""


@dataclass(frozen=True)
class Judgement:
    """A claim, its table, whether the figures support it (None: nothing measured), and those."""

    claim: str
    table: str
    holds: bool | None
    figures: str

    def line(self) -> str:
        """As a line of a Markdown list."""
        word = {True: "holds", False: "does not hold", None: "not measured yet"}[self.holds]
        return f"- {self.claim}: **{word}**" + (f" ({self.figures})." if self.figures else ".")

    def sentence(self) -> str:
        """For the opening of its table; empty if nothing was measured."""
        if self.holds is None:
            return ""
        return f'"{self.claim}" {"holds" if self.holds else "does not hold"} here.'


Verdict = tuple[bool, str]
"""Whether a claim holds, and the figures that show it."""


def judge(grids: Mapping[str, Grid]) -> list[Judgement]:
    """All claims, from the tables (by name) that have been measured."""
    judgements = []
    for claim, table, check in CLAIMS:
        verdict = _verdict(grids[table], check) if table in grids else None
        judgements.append(Judgement(claim, table, *(verdict or (None, ""))))
    return judgements


def _verdict(grid: Grid, check: Callable[[Grid], Verdict | None]) -> Verdict | None:
    """By the networks of the paper's size if they suffice, by small ones otherwise.

    Only networks that were trained alike are compared with each other.
    """
    trainings = dict.fromkeys(_training(row) for row in grid.rows if row.group != "published")
    trained = sorted(filter(None, trainings), key=lambda name: not name.startswith("paper"))
    for training in trained or [""]:
        rows = tuple(row for row in grid.rows if _training(row) in ("", training))
        alike = replace(grid, rows=rows)
        if (verdict := check(alike)) is not None:
            holds, figures = verdict
            return holds, "; ".join(filter(None, [figures, _seeds(alike, figures), training]))
    return None


def _training(row: Row) -> str:
    """How the network of a row was trained, without its seed; empty for other rows.

    >>> _training(Row("L = 8 (paper, 9400 steps, seed 1)", "ours", "", {}))
    'paper, 9400 steps'
    """
    return re.sub(r", seed \d+$", "", row.method.partition(" (")[2].removesuffix(")"))


def _seeds(grid: Grid, figures: str) -> str:
    """Mean CDs of the single seeds of rows that the figures name."""
    several = {
        name: [fmean(_cds(row).values()) for row in rows if _cds(row)]
        for name, rows in _measured(grid).items()
        if len(rows) > 1 and f"{name} " in figures
    }
    listed = [f"{name} {' and '.join(f'{cd:.2f}' for cd in cds)}" for name, cds in several.items()]
    return f"by seed {', '.join(listed)}" if listed else ""


def _cds(row: Row) -> dict[tuple[str, str], float]:
    """CD of a row by its cells."""
    return {
        (part, cell): value for (part, cell, column), value in row.values.items() if column == "cd"
    }


def _vanilla_flow(grid: Grid) -> Verdict | None:
    names = "D_a = 0", "D_a = 8", "D_a = 16", "D_a = 32", "D_a = 64 with drawn eps"
    cds = _mean_cds(grid, ("noisy", *names))
    if "D_a = 0" not in cds or len(cds) < 3:
        return None
    augmented = {name: cd for name, cd in cds.items() if name not in ("noisy", "D_a = 0")}
    best = min(augmented.values())
    remainder = (cds["D_a = 0"] - best) / max(cds["noisy"] - best, 1e-12)
    return cds["D_a = 0"] > best and remainder >= UNCONVERGED, _listed(cds)


def _filters(grid: Grid) -> Verdict | None:
    cds = _mean_cds(grid, ("LCC", "FBM", "LBM"))
    if len(cds) < 3:
        return None
    holds = _at_most(cds["LCC"], cds["FBM"]) and _at_most(cds["FBM"], cds["LBM"])
    return holds, _listed(cds)


def _depth(grid: Grid) -> Verdict | None:
    cds = _mean_cds(grid, ("L = 4", "L = 8", "L = 12"))
    if len(cds) < 3:
        return None
    ours = cds.pop("L = 8")
    return not any(_at_most(other, ours) for other in cds.values()), _listed({"L = 8": ours, **cds})


def _inverse(grid: Grid) -> Verdict | None:
    cds = _mean_cds(grid, ("L = 8", "forward + MLP"))
    return (cds["L = 8"] < cds["forward + MLP"], _listed(cds)) if len(cds) == 2 else None


def _no_mask(grid: Grid) -> Verdict | None:
    cds = _mean_cds(grid, ("noisy", "D_m = 0"))
    if len(cds) < 2:
        return None
    return abs(cds["D_m = 0"] / cds["noisy"] - 1) <= SAME, _listed(cds)


def _own_noise(grid: Grid) -> Verdict | None:
    wins = []
    for block, cell in grid.places():
        cds = _cds_in(grid, block, cell, "ours")
        own = cds.get(f"trained on {cell}")
        if own is None:
            return None
        wins.append((_at_most(own, min(cds.values())), f"on {cell}, {_listed(cds)}"))
    return all(won for won, _ in wins), "; ".join(figures for _, figures in wins)


def _ours_first(grid: Grid) -> Verdict | None:
    lost, cells = [], 0
    for block, cell in grid.places():
        ours, peers = (_cds_in(grid, block, cell, group).values() for group in ("ours", "peer"))
        if ours and peers:
            cells += 1
            if min(ours) >= min(peers):
                lost.append(f"{block} {cell}: {min(ours):.2f} against {min(peers):.2f}")
    return (not lost, "; ".join(lost) or f"{cells} of {cells} cells") if cells else None


CLAIMS: tuple[tuple[str, str, Callable[[Grid], Verdict | None]], ...] = (
    ("The vanilla flow (D_a = 0) fails to converge", "augment-dims", _vanilla_flow),
    ("LCC is at least as good a filter as FBM, and FBM as LBM", "filters", _filters),
    ("L = 8 is the best of 4, 8 and 12", "architecture", _depth),
    ("The inverse flow beats an MLP as decoder", "architecture", _inverse),
    ("Without a mask (D_m = 0) the network returns its input", "masked-dims", _no_mask),
    ("On each kind of noise, no network beats the one trained on it", "training-noise", _own_noise),
    (
        "pdflow has the lowest CD in every cell of PUSet among all tools measured here",
        "puset",
        _ours_first,
    ),
)
"""Each claim with the table that shows it; a check gives None if rows are missing there."""


def _cds_in(grid: Grid, block: str, cell: str, group: str) -> dict[str, float]:
    """CD in a cell of the rows of a group; names of trained rows without their (N steps)."""
    return {
        name: fmean(cds)
        for name, rows in _measured(grid).items()
        if (
            cds := [
                row.values[block, cell, "cd"]
                for row in rows
                if row.group == group and (block, cell, "cd") in row.values
            ]
        )
    }


def _mean_cds(grid: Grid, names: tuple[str, ...]) -> dict[str, float]:
    """Mean CD of the named measured rows over the cells that all of them have.

    Their names may end in (N steps).
    """
    found = _measured(grid)
    rows = [row for name in names for row in found.get(name, ())]
    common = set.intersection(*(set(_cds(row)) for row in rows)) if rows else set()
    cds = {
        name: [_cds(row)[cell] for row in found.get(name, ()) for cell in common] for name in names
    }
    return {name: fmean(values) for name, values in cds.items() if values}


def _measured(grid: Grid) -> dict[str, list[Row]]:
    """Measured rows by their name: a network that was trained with several seeds has several."""
    found: dict[str, list[Row]] = {}
    for row in grid.rows:
        if row.group != "published":
            found.setdefault(row.method.partition(" (")[0], []).append(row)
    return found


def _at_most(one: float, other: float) -> bool:
    return one <= other * (1 + SAME)


def _listed(cds: Mapping[str, float]) -> str:
    return "CD e-4: " + ", ".join(f"{name} {cd:.2f}" for name, cd in cds.items())
