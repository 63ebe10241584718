"""Every table on two generated shapes: it runs, and says what it must."""

from __future__ import annotations

import csv

import pytest

from pdflow.bench.records import Store
from pdflow.bench.tables import TABLES

LEVELS = ("--levels", "0.02")
SHORT = ("--steps", "1")
CASES = {
    "puset": ("--methods", "pdflow,pdflow:resample:1,noisy,oracle", *LEVELS),
    "uniformity": ("--methods", "noisy,oracle", "--points", "30000", *LEVELS),
    "architecture": SHORT,
    "filters": (*SHORT, *LEVELS),
    "augment-dims": SHORT,
    "masked-dims": (*SHORT, "--methods", "D_m = 0,D_m = 16,D_m = 35"),
    "dmrset": ("--methods", "noisy,pdflow", "--points", "200,300"),
    "lidar": ("--methods", "noisy,oracle"),
    "noise-types": ("--methods", "noisy,oracle", "--points", "10000"),
    "training-noise": SHORT,
    "scans": ("--methods", "noisy", "--points", "400", "--shapes", "2", "--levels", "0.005"),
}


def test_every_table_has_a_case():
    assert set(CASES) == set(TABLES)


@pytest.mark.parametrize("name", CASES)
def test_table(name, bench, score_data, dmr_data, results):
    data = dmr_data if name == "dmrset" else score_data
    done = bench(name, "--data", data, "-o", results, *CASES[name])
    assert done.code == 0, done.err
    table = TABLES[name]
    assert done.out.startswith(f"## {table.title}")
    assert "Means over 2 shapes" in done.out
    store = Store.open(results / f"{name}.jsonl")
    records = list(store.records.values())
    assert records
    assert all(record.values for record in records), [r.remark for r in records if not r.values]
    assert {record.run for record in records} <= set(store.runs)
    with (results / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows if row["group"] != "published"} == {
        record.key.method for record in records
    }
    assert "\\begin{tabular}" in (results / f"{name}.tex").read_text()
    if table.variants is not None:
        assert "compare the rows with each other" in done.out
        assert all("(small, 1 steps)" in r.key.method for r in records if r.group == "ours")


def test_oracle_lies_on_the_surface_and_noise_does_not(bench, score_data, tmp_path):
    done = bench(
        "puset", "--data", score_data, "-o", tmp_path, "--methods", "noisy,oracle", *LEVELS
    )
    assert done.code == 0, done.err
    means = _means(tmp_path / "puset.csv", "P2M e-4")
    for cell in ("10K 2 %", "50K 2 %"):
        assert 0 < means["oracle", cell] < 0.5 * means["noisy", cell]


def test_without_a_mask_the_network_returns_its_input(bench, score_data, results):
    done = bench("masked-dims", "--data", score_data, "-o", results, *CASES["masked-dims"])
    assert done.code == 0, done.err
    means = _means(results / "masked-dims.csv", "CD e-4")
    assert means["D_m = 0 (small, 1 steps)", "10K 2 %"] == pytest.approx(
        means["noisy", "10K 2 %"], rel=1e-3
    )
    assert means["D_m = 35 (small, 1 steps)", "10K 2 %"] > 10 * means["noisy", "10K 2 %"]


def test_published_numbers_stand_beside_ours(bench, score_data, tmp_path):
    done = bench("puset", "--data", score_data, "-o", tmp_path, "--methods", "noisy")
    line = next(line for line in done.out.splitlines() if line.startswith("| PD-Flow (paper"))
    assert line.split(" | ")[1:4] == ["2.12", "0.380", "1.36"]


def test_heldout_shapes_have_a_block_of_their_own(bench, score_data, tmp_path):
    words = ("puset", "--data", score_data, "-o", tmp_path, "--methods", "noisy", "--heldout")
    done = bench(*words, "--points", "10000", *LEVELS)
    assert done.code == 0, done.err
    assert "**held-out 10K**" in done.out
    assert "P2S e-4" in done.out
    assert "Means over 5 shapes" in done.out


def test_dmrset_takes_normals_from_their_files(dmr_data):
    from pdflow.bench.cases import Options

    options = Options(dmr_data, dmr_data, points=(200,), levels=(0.01,))
    (cell,) = TABLES["dmrset"].cells(options)
    assert cell.label == "200 1 %"
    lamp, chair = cell.load("lamp"), cell.load("chair")
    assert len(lamp.clean) == len(lamp.normals) == 200
    assert chair.normals is None


def test_lidar_rows_are_those_of_the_clean_scan(score_data):
    from pdflow.bench.cases import Options

    (cell,) = TABLES["lidar"].cells(Options(score_data, score_data, shapes=1))
    case = cell.load("egg")
    assert case.noisy.shape == case.clean.shape
    offsets = case.noisy - case.clean
    assert 0.005 < offsets.std() < 0.02


def _means(path, column: str) -> dict[tuple[str, str], float]:
    with path.open() as file:
        return {
            (row["method"], f"{row['block']} {row['cell']}"): float(row[column])
            for row in csv.DictReader(file)
            if row[column]
        }


def test_ablations_of_the_papers_size_are_measured_at_all_levels(score_data):
    from pdflow.bench.cases import Options

    for name in ("architecture", "augment-dims", "masked-dims"):
        cells = TABLES[name].cells(Options(score_data, score_data, shapes=1))
        assert [cell.name for cell in cells] == ["2 %"]
        cells = TABLES[name].cells(Options(score_data, score_data, shapes=1, size="paper"))
        assert [cell.name for cell in cells] == ["1 %", "2 %", "3 %"]


def test_rows_with_drawn_eps_share_a_training_and_differ(bench, score_data, tmp_path):
    names = "D_a = 32", "D_a = 32 with drawn eps"
    words = ("--data", score_data, "-o", tmp_path, *SHORT, *LEVELS, "--shapes", "1")
    assert bench("augment-dims", *words, "--methods", ",".join(names)).code == 0
    assert len([*(tmp_path / "models").iterdir()]) == 1
    means = _means(tmp_path / "augment-dims.csv", "CD e-4")
    mean, drawn = (means[f"{name} (small, 1 steps)", "10K 2 %"] for name in names)
    assert mean != drawn
