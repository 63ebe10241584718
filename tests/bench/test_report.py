"""The page of results and the tables beside it are what the stored results say."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdflow.bench.report import measured_grids, report_text
from pdflow.bench.tables import TABLES
from pdflow.bench.writers import write_all

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "benchmarks" / "measured"
PAGE = ROOT / "docs" / "results.md"


def test_the_page_of_results_is_up_to_date():
    assert report_text(MEASURED, PAGE) == PAGE.read_text()


@pytest.mark.parametrize("name", TABLES)
def test_stored_tables_are_up_to_date(name, tmp_path):
    grids = measured_grids(MEASURED)
    if name not in grids:
        assert not (MEASURED / f"{name}.md").exists()
        return
    for path in write_all(tmp_path, TABLES[name], grids[name]):
        assert path.read_text() == (MEASURED / path.name).read_text(), path.name


def test_a_section_opens_with_what_it_shows_and_the_page_ends_with_provenance():
    pages = report_text(MEASURED, PAGE).split("\n## ")
    sections = {text.split("\n")[0]: text.split("\n\n") for text in pages[1:]}
    for table in (TABLES[name] for name in measured_grids(MEASURED)):
        opening, *rest = sections[table.title][1:]
        assert opening.startswith(table.shows)
        tables = [i for i, part in enumerate(rest) if part.startswith("| ")]
        assert rest.index("How it was made:") > max(tables)
    assert list(sections)[-1] == "Provenance"
