"""The paper's claims are judged by figures, either way."""

from __future__ import annotations

import pytest

from pdflow.bench.layout import Block, Grid, Row
from pdflow.bench.trends import judge


def grid(cds: dict[str, float], group: str = "ours") -> Grid:
    rows = tuple(
        Row(name, "reference" if name == "noisy" else group, "", {("10K", "2 %", "cd"): cd})
        for name, cd in cds.items()
    )
    return Grid((Block("10K", ("2 %",), ("cd",)),), rows, ())


@pytest.mark.parametrize(
    ("table", "claim", "true", "false"),
    [
        (
            "augment-dims",
            "vanilla",
            {"noisy": 8.0, "D_a = 0 (9 steps)": 7.0, "D_a = 32 (9 steps)": 4.0},
            {"noisy": 8.0, "D_a = 0 (9 steps)": 4.5, "D_a = 32 (9 steps)": 4.0},
        ),
        (
            "filters",
            "LCC",
            {"LCC (9 steps)": 3.0, "FBM (9 steps)": 3.2, "LBM (9 steps)": 3.3},
            {"LCC (9 steps)": 3.3, "FBM (9 steps)": 3.2, "LBM (9 steps)": 3.4},
        ),
        ("architecture", "MLP", {"L = 8": 3.0, "forward + MLP": 4.0},
         {"L = 8": 4.0, "forward + MLP": 3.0}),
        ("architecture", "L = 8 is the best", {"L = 4": 4.0, "L = 8": 3.0, "L = 12": 3.5},
         {"L = 4": 4.0, "L = 8": 3.6, "L = 12": 3.5}),
        ("architecture", "L = 8 is the best", {"L = 4": 4.0, "L = 8": 3.0, "L = 12": 3.1},
         {"L = 4": 4.0, "L = 8": 3.0, "L = 12": 3.01}),
        ("masked-dims", "D_m = 0", {"noisy": 8.0, "D_m = 0": 8.01}, {"noisy": 8.0, "D_m = 0": 7.0}),
    ],
)  # fmt: skip
def test_claims(table, claim, true, false):
    for figures, holds in ((true, True), (false, False)):
        (found,) = [j for j in judge({table: grid(figures)}) if j.holds is not None]
        assert claim in found.claim
        assert found.holds is holds
        assert all(f"{cd:.2f}" in found.figures for cd in figures.values())


def test_seeds_are_averaged_and_networks_of_the_papers_size_come_first():
    figures = {
        "L = 8 (small, 9 steps)": 9.0,
        "L = 8 (paper, 9 steps)": 3.0,
        "L = 8 (paper, 9 steps, seed 1)": 5.0,
        "forward + MLP (small, 9 steps)": 1.0,
        "forward + MLP (paper, 9 steps)": 4.5,
    }
    (found,) = [j for j in judge({"architecture": grid(figures)}) if j.holds is not None]
    assert found.holds
    assert found.figures == (
        "CD e-4: L = 8 4.00, forward + MLP 4.50; by seed L = 8 3.00 and 5.00; paper, 9 steps"
    )


def test_networks_that_were_trained_otherwise_are_not_compared():
    figures = {
        "L = 8 (small, 9 steps)": 5.0,
        "forward + MLP (small, 9 steps)": 6.0,
        "L = 8 (paper, 9 steps)": 3.0,
        "forward + MLP (paper, 7 steps)": 2.0,
    }
    (found,) = [j for j in judge({"architecture": grid(figures)}) if j.holds is not None]
    assert found.holds
    assert found.figures == "CD e-4: L = 8 5.00, forward + MLP 6.00; small, 9 steps"


def test_only_cells_that_all_rows_have_are_compared():
    whole = Row("noisy", "reference", "", {("10K", "2 %", "cd"): 8.0, ("10K", "3 %", "cd"): 20.0})
    network = Row("D_m = 0 (small, 9 steps)", "ours", "", {("10K", "2 %", "cd"): 8.0})
    found = judge({"masked-dims": Grid((), (whole, network), ())})
    assert [each.holds for each in found if each.table == "masked-dims"] == [True]


def test_ours_must_be_first_in_every_cell():
    def table(ours: float, peer: float) -> Grid:
        one, other = grid({"pdflow": ours}), grid({"cgal-jet": peer}, "peer")
        return Grid(one.blocks, one.rows + other.rows, ())

    (won,) = [j for j in judge({"puset": table(2.0, 3.0)}) if j.holds is not None]
    (lost,) = [j for j in judge({"puset": table(3.0, 2.0)}) if j.holds is not None]
    assert (won.holds, lost.holds) == (True, False)
    assert "10K 2 %: 3.00 against 2.00" in lost.line()


def test_nothing_measured_is_no_judgement():
    assert {judgement.holds for judgement in judge({})} == {None}
