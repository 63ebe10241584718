"""What the paper claims of its design, judged by the figures measured here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pdflow.bench.layout import Grid, Row

SAME = 0.01
"""Relative difference of CD below which two results count as the same."""
UNCONVERGED = 0.5
"""Share of the noise in CD that a network must leave to count as not converged."""


@dataclass(frozen=True)
class Judgement:
    """A claim, whether the figures bear it out (None: nothing measured), and those figures."""

    claim: str
    holds: bool | None
    figures: str

    def line(self) -> str:
        """As a line of a Markdown list."""
        word = {True: "holds", False: "does not hold", None: "not measured yet"}[self.holds]
        return f"- {self.claim}: **{word}**" + (f" ({self.figures})." if self.figures else ".")


def judge(grids: Mapping[str, Grid]) -> list[Judgement]:
    """All claims, from the tables (by name) that have been measured."""
    return [
        _vanilla_flow(grids.get("augment-dims")),
        _filters(grids.get("filters")),
        _inverse(grids.get("architecture")),
        _no_mask(grids.get("masked-dims")),
        _own_noise(grids.get("training-noise")),
        _ours_first(grids.get("puset")),
    ]


def _vanilla_flow(grid: Grid | None) -> Judgement:
    claim = "The vanilla flow (D_a = 0) fails to converge"
    cds = _mean_cds(grid, ("noisy", "D_a = 0", "D_a = 8", "D_a = 16", "D_a = 32", "D_a = 64"))
    if "D_a = 0" not in cds or len(cds) < 3:
        return Judgement(claim, None, "")
    augmented = {name: cd for name, cd in cds.items() if name not in ("noisy", "D_a = 0")}
    best = min(augmented.values())
    left = (cds["D_a = 0"] - best) / max(cds["noisy"] - best, 1e-12)
    return Judgement(claim, cds["D_a = 0"] > best and left >= UNCONVERGED, _told(cds))


def _filters(grid: Grid | None) -> Judgement:
    claim = "Of the filters LCC is at least as good as FBM, and FBM as LBM"
    cds = _mean_cds(grid, ("LCC", "FBM", "LBM"))
    if len(cds) < 3:
        return Judgement(claim, None, "")
    holds = _at_most(cds["LCC"], cds["FBM"]) and _at_most(cds["FBM"], cds["LBM"])
    return Judgement(claim, holds, _told(cds))


def _inverse(grid: Grid | None) -> Judgement:
    claim = "The inverse flow beats an MLP as decoder"
    cds = _mean_cds(grid, ("L = 8", "forward + MLP"))
    if len(cds) < 2:
        return Judgement(claim, None, "")
    return Judgement(claim, cds["L = 8"] < cds["forward + MLP"], _told(cds))


def _no_mask(grid: Grid | None) -> Judgement:
    claim = "Without a mask (D_m = 0) the network returns its input"
    cds = _mean_cds(grid, ("noisy", "D_m = 0"))
    if len(cds) < 2:
        return Judgement(claim, None, "")
    return Judgement(claim, abs(cds["D_m = 0"] / cds["noisy"] - 1) <= SAME, _told(cds))


def _own_noise(grid: Grid | None) -> Judgement:
    claim = "On each noise the network that was trained on it is the best"
    if grid is None:
        return Judgement(claim, None, "")
    wins = []
    for block in grid.blocks:
        for cell in block.cells:
            cds = {
                row.method.partition(" (")[0]: row.values[block.name, cell, "cd"]
                for row in grid.rows
                if row.group == "ours" and (block.name, cell, "cd") in row.values
            }
            own = cds.get(f"trained on {cell}")
            if own is None:
                return Judgement(claim, None, "")
            wins.append((_at_most(own, min(cds.values())), f"{cell}: {own:.2f} of {_told(cds)}"))
    return Judgement(claim, all(won for won, _ in wins), "; ".join(told for _, told in wins))


def _ours_first(grid: Grid | None) -> Judgement:
    claim = "Ours is first in CD in every cell of PUSet among everything measured here"
    lost, cells = [], 0
    for block in grid.blocks if grid else ():
        for cell in block.cells:
            place = (block.name, cell, "cd")
            ours = [r.values[place] for r in _of(grid, "ours") if place in r.values]
            peers = [r.values[place] for r in _of(grid, "peer") if place in r.values]
            if ours and peers:
                cells += 1
                if min(ours) >= min(peers):
                    lost.append(f"{block.name} {cell}: {min(ours):.2f} against {min(peers):.2f}")
    if not cells:
        return Judgement(claim, None, "")
    return Judgement(claim, not lost, "; ".join(lost) or f"{cells} of {cells} cells")


def _of(grid: Grid | None, group: str) -> list[Row]:
    return [row for row in grid.rows if row.group == group] if grid else []


def _mean_cds(grid: Grid | None, names: tuple[str, ...]) -> dict[str, float]:
    """Mean CD over all cells of the named measured rows; their names may end in (N steps)."""
    found: dict[str, float] = {}
    for row in grid.rows if grid else ():
        name = row.method.partition(" (")[0]
        cds = [value for (_, _, column), value in row.values.items() if column == "cd"]
        if name in names and row.group != "published" and cds:
            found[name] = sum(cds) / len(cds)
    return {name: found[name] for name in names if name in found}


def _at_most(one: float, other: float) -> bool:
    return one <= other * (1 + SAME)


def _told(cds: Mapping[str, float]) -> str:
    return "CD e-4: " + ", ".join(f"{name} {cd:.2f}" for name, cd in cds.items())
