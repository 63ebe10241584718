"""Curves over a setting, and clouds coloured by their error."""

from __future__ import annotations

import json

import pytest

from pdflow.bench.figures import curves_of, draw_curves
from pdflow.bench.layout import Block, Grid, Row

CD = ("10K", "2 %", "cd")


def row(name: str, cd: float, group: str = "ours") -> Row:
    return Row(name, group, "", {CD: cd, ("10K", "2 %", "p2m"): cd / 2})


GRID = Grid(
    (Block("10K", ("2 %",), ("cd", "p2m")),),
    (
        row("D_a = 8 (paper, 9400 steps)", 3.0),
        row("D_a = 8 (paper, 9400 steps, seed 1)", 4.0),
        row("D_a = 0 (paper, 9400 steps)", 7.0),
        row("D_a = 8 (small, 200 steps)", 6.0),
        row("D_a = 8 with drawn eps (small, 200 steps)", 6.5),
        row("D_a = 16 (paper)", 1.0, "published"),
        row("noisy", 8.0, "reference"),
    ),
    (),
)


def test_seeds_belong_to_one_curve_and_other_trainings_to_another():
    assert curves_of(GRID, "D_a", "cd") == {
        "paper, 9400 steps": {8.0: [3.0, 4.0], 0.0: [7.0]},
        "small, 200 steps": {8.0: [6.0]},
        "small, 200 steps, with drawn eps": {8.0: [6.5]},
    }


def test_curves_are_written_as_png_and_pdf_and_repeat_to_the_byte(tmp_path):
    paths = draw_curves(tmp_path, {"augment-dims": GRID, "filters": GRID})
    assert [path.name for path in paths] == ["augment-dims.png", "augment-dims.pdf"]
    first = [path.read_bytes() for path in paths]
    assert first[0].startswith(b"\x89PNG")
    assert first[1].startswith(b"%PDF")
    draw_curves(tmp_path, {"augment-dims": GRID})
    assert [path.read_bytes() for path in paths] == first


def test_a_report_with_data_draws_clouds_by_their_error(bench, score_data, tmp_path):
    words = ("--data", score_data, "-o", tmp_path)
    assert bench("masked-dims", *words, "--methods", "D_m = 0", "--steps", "1").code == 0
    page = tmp_path / "page.md"
    methods = ("--methods", "noisy,oracle", "--shapes", "1")
    done = bench("report", *words, *methods, "--docs", page)
    assert done.code == 0, done.err
    shown = json.loads((tmp_path / "errors.json").read_text())
    assert shown["errors"]["egg"]["oracle"] == pytest.approx(0, abs=1e-3)
    assert 1 < shown["errors"]["egg"]["noisy"] < 2  # of points with noise of 2 %
    for name in ("errors.png", "errors.pdf", "masked-dims.png", "masked-dims.pdf"):
        assert (tmp_path / name).stat().st_size > 1000
    text = page.read_text()
    assert "![CD and P2M over D_m](masked-dims.png)" in text
    assert "![Clouds coloured by their error](errors.png)" in text
    assert "egg: noisy 1." in text
    (tmp_path / "errors.json").write_text("{}")
    assert "errors.json is damaged" in bench("report", "-o", tmp_path, "--docs", page).err
