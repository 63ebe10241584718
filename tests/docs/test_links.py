"""Links between files of the clone, which the build of the site does not follow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
MADE = {"api.md", "options.md", "install.md"}
"""Pages that exist in the site only."""

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "benchmarks" / "README.md",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in LINK.findall(text):
        if "://" not in target and target not in MADE:
            assert (page.parent / target).exists(), target


def test_named_benchmarks_exist() -> None:
    places = [*PAGES, *ROOT.glob("src/**/*.py"), *ROOT.glob("benchmarks/**/*.py")]
    for place in places:
        for script in re.findall(r"benchmarks/[\w/]+\.(?:py|sh)\b", place.read_text("utf-8")):
            assert place.name == "CHANGELOG.md" or (ROOT / script).exists(), (place, script)


def test_page_on_benchmarks_names_every_script() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    folders = re.split(r"^\| \*\*`(\w+)/`", text, flags=re.MULTILINE)
    for folder, rows in zip(folders[1::2], folders[2::2], strict=True):
        named = set(re.findall(r"`(\w+\.(?:py|sh))`", rows))
        files = (ROOT / "benchmarks" / folder).glob("*.*")
        assert named == {file.name for file in files if file.suffix in {".py", ".sh"}}, folder
