"""Every listing on a page runs: Python in order, and commands, in an empty folder."""

from __future__ import annotations

import logging
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pdflow
from pdflow.cli.main import main
from pdflow.io import FORMATS

ROOT = Path(__file__).parents[2]
LISTING = re.compile(r"^```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = [ROOT / "docs" / "export.md"]
"""Run by tests/export, beside the network that its listing needs."""

PAGES = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if LISTING.search(path.read_text()) and path not in ELSEWHERE
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the files that pages speak of, each small."""
    (tmp_path / "examples").mkdir()
    some = np.random.default_rng(0).permutation(10_000)[:1200]
    for name in ("gear.ply", "gear_noisy.ply"):
        cloud = pdflow.read(ROOT / "examples" / name)[np.sort(some)]
        pdflow.write(tmp_path / "examples" / name, cloud)
    shutil.copy(ROOT / "examples" / "gear.off", tmp_path / "examples")
    few = pdflow.read(tmp_path / "examples" / "gear_noisy.ply")[:800]
    for name in ("noisy.ply", "huge.laz", "tiles/a.laz", "tiles/b.laz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pdflow.write(tmp_path / name, few)
    monkeypatch.chdir(tmp_path)
    # A page may register a format or set up logging, which later tests must not see.
    formats, handlers = list(FORMATS), list(logging.root.handlers)
    yield
    FORMATS[:], logging.root.handlers[:] = formats, handlers
    logging.getLogger("pdflow").setLevel(logging.NOTSET)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.filterwarnings("ignore::pdflow.errors.LossWarning")
@pytest.mark.usefixtures("folder")
def test_listings_of_a_page_run(page: Path) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for kind, text in LISTING.findall(page.read_text()):
        if kind == "python":
            exec(compile(text, str(page), "exec"), names)
            continue
        for line in text.splitlines():
            program, *words = shlex.split(line, comments=True)
            assert program == "pdflow", line
            assert main(words) == 0, line


@pytest.mark.parametrize(
    "notebook", sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_notebooks_run(notebook: Path, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    import nbformat

    content = nbformat.read(notebook, as_version=4)
    assert not any(cell.get("outputs") for cell in content.cells), "outputs do not belong in git"
    nbclient.NotebookClient(
        content, timeout=300, resources={"metadata": {"path": tmp_path}}
    ).execute()
