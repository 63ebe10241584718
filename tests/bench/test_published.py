"""Published numbers: complete, of known tables, and those of the paper."""

from __future__ import annotations

from importlib import resources

import pytest

from pdflow.bench.layout import column_label
from pdflow.bench.published import published_rows, tomllib
from pdflow.bench.tables import TABLES

KNOWN = tomllib.loads(resources.files("pdflow.bench").joinpath("published.toml").read_text())


def test_only_tables_that_exist_have_published_numbers():
    assert set(KNOWN) <= set(TABLES)
    assert set(TABLES) - set(KNOWN) == {
        "augment-dims",  # a curve without figures
        "masked-dims",  # another
        "scans",  # our own
    }


@pytest.mark.parametrize("table", KNOWN)
def test_every_row_has_a_source_and_columns_that_can_be_shown(table):
    rows = published_rows(table)
    assert rows
    assert all(row.source and row.values for row in rows)
    for column in KNOWN[table]["columns"]:
        assert column_label(column)


def test_figures_are_those_of_the_paper():
    ours = {row.method: row for row in published_rows("puset")}["PD-Flow"]
    assert ours.values["50K 3 %", "cd"] == 1.94
    assert ours.values["10K 3 %", "hd"] == 5.31
    lcc = {row.method: row for row in published_rows("filters")}["LCC"]
    assert lcc.values["10K 2 %", "p2m"] == 1.03
    discrete = {row.method: row for row in published_rows("noise-types")}["PD-Flow"]
    assert discrete.values["discrete, 50K 3 %", "hd"] == 1.45


def test_sums_over_shapes_become_means():
    paper = {row.method: row for row in published_rows("uniformity")}["PD-Flow"]
    assert paper.values["10K 1 %", "cd"] == 2.12
    assert paper.values["10K 1 %", "uniformity_0.4"] == pytest.approx(1e3 * 0.33 / 10 / 20)


def test_what_is_not_published_is_left_out():
    dsnet = {row.method: row for row in published_rows("puset")}["DSNet"]
    assert ("10K 2 %", "cd") not in dsnet.values
    assert dsnet.values["10K 1 %", "cd"] == 1.83
    assert published_rows("masked-dims") == ()
