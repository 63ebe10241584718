"""The table of scans: its cells, what it measures, and how it judges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pdflow.bench import methods as bench_methods
from pdflow.bench.cases import Options, Scale
from pdflow.bench.layout import Block, Grid, Row, build_grid
from pdflow.bench.methods import Method, Output
from pdflow.bench.records import Key, Record, Store
from pdflow.bench.scan_cases import ScanCase, filter_method, on_scans, statistical_filter
from pdflow.bench.scan_sections import SECTIONS, Comparison, goals, scan_sections, worst_cells
from pdflow.bench.tables import scans
from pdflow.bench.tables.scans import CLEAN_KINDS, SCENES, TABLE, cells
from pdflow.errors import PdflowError
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.scenes.cases import HELD_OUT_SEEDS, KINDS

POINTS = 1500


def options(**given) -> Options:
    return Options(Path(), Path(), **{"points": (POINTS,), "shapes": 1, **given})


def cell_of(start: str, name: str):
    (cell,) = [c for c in cells(options()) if c.block.startswith(start) and c.name == name]
    return cell


def loaded(cell) -> ScanCase:
    case = cell.load(cell.shapes[0])
    assert isinstance(case, ScanCase)
    return case


def test_all_kinds_of_scenes_are_measured():
    assert {scene.kind for scene in SCENES} == set(KINDS)
    assert len({(c.label, c.block) for c in cells(options())}) == len(cells(options()))
    assert {"plates", "double-sheet-rim"} & set(CLEAN_KINDS) == set()


def test_seeds_are_held_out_and_differ_between_runs():
    first, other = (cells(options(shapes=3, seed=seed))[0].shapes for seed in (0, 1))
    assert min(map(int, first + other)) == HELD_OUT_SEEDS
    assert len({*first, *other}) == 6


def test_points_and_levels_choose_cells():
    default = {cell.block for cell in cells(options(points=None))}
    assert {"scan lines, 20K", "sparse with detail, 2K", "clean input, 50K"} <= default
    assert "sparse with detail, 2K" in {c.block for c in cells(options(points=(9000,)))}
    assert {cell.name for cell in cells(options(levels=(0.02,)))} == {"2 %"}
    assert {c.block for c in cells(options(levels=(0.0,)))} == {f"clean input, {POINTS}"}
    with pytest.raises(PdflowError, match="no such level"):
        cells(options(levels=(0.3,)))


def test_noisy_points_are_as_far_off_as_their_noise():
    cell = cell_of("open sheet", "1 %")
    case = loaded(cell)
    values = cell.measure(case, Output(case.noisy))
    assert values["p2m_one_way"] == pytest.approx(1e-4, rel=0.15)
    assert values["cd"] > values["p2m_one_way"]
    assert values["largest_move"] == 0
    assert values["estimate"] == pytest.approx(1, abs=0.3)
    clean = cell.measure(case, Output(case.clean))
    assert clean["cd"] == 0
    assert 3 < clean["largest_move"] < 6


def test_mixed_pixels_are_not_measured():
    cell = cell_of("depth camera", "1 %")
    case = loaded(cell)
    mixed = case.truth.outliers
    assert mixed.any()
    values = cell.measure(case, Output(np.where(mixed[:, None], 100.0, case.clean)))
    assert values["cd"] == 0
    assert values["rms_ratio"] == pytest.approx(0, abs=1e-9)
    assert cell.measure(case, Output(case.noisy))["rms_ratio"] == 1


def test_outliers_found_and_surface_points_taken():
    cell = cell_of("20 % outliers, uniform", "1 %")
    case = loaded(cell)
    outliers = case.truth.outliers
    kept = ~outliers
    kept[:15] = False
    values = cell.measure(case, Output(case.noisy[kept], kept=kept))
    assert (values["recall_far"], values["recall"]) == (1, 1)
    assert values["taken"] == pytest.approx(15 / len(case.clean))
    near = outliers & (closest_on_mesh(case.noisy, case.mesh)[0] < (4 * case.sigma) ** 2)
    assert near.any()
    values = cell.measure(case, Output(case.noisy[~outliers | near], kept=~outliers | near))
    assert values["recall_far"] == 1
    assert values["recall"] == pytest.approx(1 - near.sum() / outliers.sum())


def test_peers_get_what_the_statistical_filter_leaves():
    cell = cell_of("20 % outliers, uniform", "1 %")
    case = loaded(cell)
    seen = []

    def smooth(_, given):
        seen.append((given.noisy, given.scale))
        return Output(given.noisy)

    peer = on_scans(Method("a-peer", "peer", lambda: None, smooth))
    done, alone = (m.denoise(None, case) for m in (peer, filter_method()))
    assert np.array_equal(done.points, alone.points)
    assert np.array_equal(done.kept, statistical_filter(case.noisy))
    assert seen[0][1] == case.scale == Scale.of(seen[0][0])
    assert 0.5 < cell.measure(case, alone)["recall"] < 1
    clean = loaded(cell_of("open sheet", "1 %"))
    peer.denoise(None, clean)
    assert seen[1][0] is clean.noisy


def test_noise_is_estimated_without_outliers():
    case = loaded(cell_of("20 % outliers, along rays", "0.5 %"))
    assert case.estimate < replace(case, to_remove=False).estimate


def test_our_networks_remove_outliers_where_there_are_any():
    (ours,) = scans.methods(options(methods=("pdflow:points:1",)))
    state = ours.load()
    cell = cell_of("20 % outliers, uniform", "0.5 %")
    case = loaded(cell)
    done = ours.denoise(state, case)
    assert len(done.points) == done.kept.sum() < len(case.noisy)
    assert cell.measure(case, done)["recall"] > 0.5
    sheet = loaded(cell_of("open sheet", "0.5 %"))
    assert len(ours.denoise(state, sheet).points) == len(sheet.noisy)


def test_a_tile_is_judged_by_class():
    cell = cell_of("tile of terrain", "25 mm")
    case = loaded(cell)
    assert case.sigma == pytest.approx(0.025, rel=0.1)
    before = cell.measure(case, Output(case.noisy))
    assert before["ground_ratio"] == before["building_ratio"] == 1
    assert before["tree_move"] == 0
    lifted = cell.measure(case, Output(case.clean + np.array([0, 0, 0.05])))
    assert 30 < lifted["bias"] < 51
    assert lifted["tree_move"] > 1
    assert lifted["ground_ratio"] > 1


def test_clean_scans_are_judged_by_moves():
    cell = cell_of("clean input", "strokes")
    case = loaded(cell)
    still = cell.measure(case, Output(case.noisy))
    assert still == pytest.approx({"cd": 0, "p2m_one_way": 0, "mean_move": 0}, abs=1e-20)
    shift = np.array([case.truth.scan.spacing, 0, 0])
    moved = cell.measure(case, Output(case.noisy + shift))
    assert moved["mean_move"] == pytest.approx(1)
    assert moved["cd"] > 0


def test_rows_must_be_kept(monkeypatch):
    cell = cell_of("open sheet", "1 %")
    case = loaded(cell)
    with pytest.raises(PdflowError, match="measured row by row"):
        cell.measure(case, Output(case.noisy[1:]))
    with pytest.raises(PdflowError, match="The result"):
        cell.measure(case, Output(np.full_like(case.noisy, np.nan)))
    with pytest.raises(PdflowError, match="oracle keeps no rows"):
        scans.methods(options(methods=("oracle",)))
    names = ("pdflow:points", "pdflow:resample", "cgal-jet", "cgal-wlop")
    known = [Method(name, "ours", lambda: None, lambda _, case: Output(case.noisy))
             for name in names]  # fmt: skip
    monkeypatch.setattr(bench_methods, "all_methods", lambda: known)
    chosen = [method.name for method in scans.methods(options())]
    assert chosen == ["pdflow:points", "cgal-jet", "statistical"]


PLACE = ("a scene, 10K", "1 %")


def row(method: str, group: str, **values: float) -> Row:
    means = {(*PLACE, name): value for name, value in values.items()}
    return Row(method, group, "", means, ranges={key: (v, v) for key, v in means.items()})


def test_goals_compare_with_the_input_and_the_best_peer():
    errors = SECTIONS[0]
    noisy = row("noisy", "reference", cd=2.0, p2m_one_way=1.0)
    peers = [row("a", "peer", cd=1.5, p2m_one_way=0.1), row("b", "peer", cd=1.0, p2m_one_way=0.5)]
    ours = row("pdflow", "ours", cd=1.04, p2m_one_way=0.1, estimate=1.1)
    assert goals([ours, noisy, *peers], errors, PLACE) == "hold"
    ours = row("pdflow", "ours", cd=2.2, p2m_one_way=0.2, estimate=1.6, largest_move=9.0)
    missed = goals([ours, noisy, *peers], errors, PLACE).split("; ")
    assert missed == [
        "estimate / sigma 1.60, above 1.30",
        "CD 1.10 x noisy",
        "CD 2.20 x b",
        "P2M one-way 2.00 x a",
    ]
    assert goals([noisy], errors, PLACE) == "-"


def test_goals_of_outliers_ask_for_more_than_the_filter_finds():
    outliers = next(section for section in SECTIONS if section.title == "Outliers")
    peer = row("statistical", "peer", recall_far=0.9, recall=0.8, taken=0.0, cd=3.0)
    ours = row("pdflow", "ours", recall_far=0.96, recall=0.85, taken=0.005, cd=2.0)
    assert goals([ours, peer], outliers, PLACE) == "hold"
    ours = row("pdflow", "ours", recall_far=0.9, recall=0.6, taken=0.02, cd=2.0)
    assert goals([ours, peer], outliers, PLACE).split("; ") == [
        "recall beyond 4 sigma 0.900, below 0.950",
        "surface points taken 0.020, above 0.010",
        "recall 0.75 x statistical",
    ]


def test_the_worst_cells_are_those_with_the_highest_ratio():
    other = ("another scene, 10K", "1 %")
    noisy = row("noisy", "reference", cd=2.0, p2m_one_way=1.0)
    peer = row("a", "peer", cd=4.0, p2m_one_way=0.5)
    ours = row("pdflow", "ours", cd=1.0, p2m_one_way=0.75)
    rows = [
        replace(each, values={**each.values, (*other, "cd"): value})
        for each, value in ((ours, 3.0), (noisy, 1.0), (peer, 2.0))
    ]
    blocks = tuple(Block(place[0], place[1:], ()) for place in (PLACE, other))
    grid = Grid(blocks, tuple(rows), ())
    second = Comparison(1.5, PLACE, "p2m_one_way")
    assert worst_cells(grid, 5) == [Comparison(3.0, other, "cd"), second]
    assert len(worst_cells(grid, 1)) == 1
    assert worst_cells(Grid(blocks, tuple(rows[1:]), ()), 5) == []


def test_every_scene_has_to_keep_the_limits(tmp_path):
    store = Store(tmp_path / "scans.jsonl")
    for shape, estimate in (("1", 1.5), ("2", 0.5)):
        key = Key(*PLACE, shape, "pdflow", "weights", 0)
        values = {"cd": 1e-4, "estimate": estimate}
        store.add(Record(key, "ours", values, 1.0, 1.0, "", {}, "run"))
    ours = build_grid("scans", store).row("pdflow")
    assert ours.values[(*PLACE, "estimate")] == 1
    assert ours.ranges[(*PLACE, "cd")] == pytest.approx((1, 1))
    missed = ["estimate / sigma 0.500, below 0.700", "estimate / sigma 1.50, above 1.30"]
    assert goals([ours], SECTIONS[0], PLACE).split("; ") == missed


def test_a_cell_stands_in_the_sections_of_its_columns():
    ours = row("pdflow", "ours", recall_far=0.5, recall=0.4, taken=0.0, cd=2.0, estimate=1.2)
    peer = row("statistical", "peer", recall_far=0.7, recall=0.3, taken=0.1, cd=3.0)
    jet = row("jet", "peer", recall_far=0.7, recall=0.3, taken=0.1, cd=2.5)
    grid = Grid((Block(*PLACE[:1], PLACE[1:], ()),), (ours, peer, jet), ())
    ((title, (heads, line)),) = scan_sections(grid, lambda text: f"<{text}>")
    assert title.startswith("Outliers: recall beyond 4 sigma, recall, ")
    assert heads == ["case", "noise", "estimate / sigma", "pdflow", "statistical", "jet", "goals"]
    assert line[:3] == [*PLACE, "1.20"]
    assert line[3:5] == ["0.500 / <0.400> / <0.000> / <2.00>", "<0.700> / 0.300 / 0.100 / 3.00"]
    assert line[5] == "2.50"
    clean = [replace(each, values={(*PLACE, "mean_move"): 0.0}) for each in (ours, peer)]
    ((title, _),) = scan_sections(replace(grid, rows=tuple(clean)), str)
    assert title.startswith("Clean input")


def test_the_table_needs_no_data_and_goes_on(bench, tmp_path):
    words = ("scans", "-o", tmp_path, "--points", "300", "--shapes", "1", "--levels", "0.02")
    done = bench(*words, "--methods", "noisy,statistical")
    assert done.code == 0, done.err
    assert "| case | noise | estimate / sigma | noisy | goals |" in done.out
    assert "`pdflow bench scans --methods noisy,statistical --points 300" in done.out
    assert "paper" not in done.out
    stored = [key.method for key in Store.open(tmp_path / "scans.jsonl").records]
    assert stored.count("statistical") == 9  # only where there are outliers
    assert len(stored) > 2 * 9
    before = (tmp_path / "scans.jsonl").read_text().count('"cell"')
    assert bench(*words, "--methods", "noisy,statistical").code == 0
    assert (tmp_path / "scans.jsonl").read_text().count('"cell"') == before
    assert TABLE.title in (tmp_path / "scans.tex").read_text()
    assert "recall beyond 4 sigma" in (tmp_path / "scans.csv").read_text().splitlines()[0]
    assert "puset needs data" in bench("puset", "-o", tmp_path).err
