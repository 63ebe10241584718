"""The site builds strictly, and holds every public name and every option."""

from __future__ import annotations

import html
import importlib
import re
from pathlib import Path

import pytest
from typer.main import get_command

from pdflow.cli.main import app

mkdocs = pytest.importorskip("mkdocs.commands.build")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning, such as for a broken link, fails the build."""
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    config.plugins.run_event("startup", command="build", dirty=False)
    mkdocs.build(config)
    return folder


def text_of(page: Path) -> str:
    """What a reader sees of a page."""
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def test_every_public_name_is_in_the_site_with_its_docstring(site: Path) -> None:
    page = (site / "api" / "index.html").read_text()
    packages = [
        ".".join(path.parent.relative_to(ROOT / "src").parts)
        for path in [*(ROOT / "src").glob("*/__init__.py"), *(ROOT / "src").glob("*/*/__init__.py")]
        if re.search(r"^(    __getattr__, __dir__, )?__all__ = ", path.read_text(), re.MULTILINE)
    ]
    assert {"pdflow", "pdflow.io", "pdflow.patches"} <= set(packages)
    for package in packages:
        for name in importlib.import_module(package).__all__:
            if name != "__version__":
                assert f'id="{package}.{name}"' in page, name
    assert "A clean cloud of the same kind as" in page


def test_every_command_and_option_is_in_the_site(site: Path) -> None:
    page = text_of(site / "options" / "index.html")
    sections = re.split(r"\npdflow ([a-z-]+)¶", page)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert found.keys() == commands.keys()
    for name, command in commands.items():
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("-"):
                    assert option in found[name], (name, option)


def test_the_site_says_how_to_install(site: Path) -> None:
    page = text_of(site / "install" / "index.html")
    assert "--index-url https://download.pytorch.org/whl/cpu" in page
    assert "docker build" in page


def test_arguments_are_lists_and_examples_are_listings(site: Path) -> None:
    page = (site / "api" / "index.html").read_text()
    section = page.split('id="pdflow.PointCloud"')[1].split('id="pdflow.Report"')[0]
    assert re.search(r"<li>\s*(<p>)?<code>attributes</code>", section)
    assert "&gt;&gt;&gt;" in section


def test_every_page_can_be_reached(site: Path) -> None:
    start = (site / "index.html").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        assert name == "index" or f'href="{name}/"' in start, name
