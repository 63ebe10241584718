"""Pages of the site that are made when it is built, and links that only a clone can follow.

    install.md            the part of the README on installation
    options.md            every option of every command, from the commands themselves
    api.md                every public name, from `__all__`
    notebooks/NAME.md     the notebooks, as text

The pages in docs/ are also read in the clone, so they link to source files; these links become
plain text here. Pages that mkdocs.yml does not list join the section Background.
"""

from __future__ import annotations

import importlib
import json
import posixpath
import re
from pathlib import Path
from typing import Any

import pdflow

ALL = "__all__ = "
LINK = re.compile(r"(!?)\[([^\]]*)\]\(((?!https?:)[^)#\s]+)[^)]*\)")


def on_config(config: Any) -> None:
    """Add the pages that others put into docs/ to the last section."""
    docs = Path(config.docs_dir)
    listed = json.dumps(config.nav)
    unlisted = [page.name for page in sorted(docs.glob("*.md")) if f'"{page.name}"' not in listed]
    config.nav[-1]["Background"] += unlisted


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here."""
    from mkdocs.structure.files import File

    root = Path(config.config_file_path).parent
    pages = {
        "install.md": install_page(root / "README.md"),
        "options.md": options_page(),
        "api.md": api_page(),
    }
    for notebook in sorted((Path(config.docs_dir) / "notebooks").glob("*.ipynb")):
        pages[f"notebooks/{notebook.stem}.md"] = notebook_page(notebook)
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to files outside docs/ into text, and leave out pictures there."""
    folder = posixpath.dirname(page.file.src_uri)

    def inside(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[3]))
        if not target.startswith(".."):
            return link[0]
        return "" if link[1] else link[2]

    return LINK.sub(inside, markdown)


def install_page(readme: Path) -> str:
    """The section Install of the README, with links as seen from docs/."""
    section = readme.read_text().split("\n## Install\n")[1].split("\n## ")[0]
    return f"# Installation\n{section.replace('](docs/', '](')}\n"


def options_page() -> str:
    """A section per command: what it does, how it is called, a table of its options."""
    from typer.main import get_command

    from pdflow.cli.main import app

    parts = [
        "# All options",
        "Made from the commands themselves, as `pdflow COMMAND --help` prints it. "
        "[Commands](commands.md) explains them.",
    ]
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        words = " ".join(["pdflow", name, "[OPTIONS]", *(str(p.metavar) for p in arguments)])
        rows = [_option_row(p) for p in command.params if p.param_type_name == "option"]
        table = "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])
        parts += [f"## pdflow {name}", f"    {words}", str(command.help), table]
    return "\n\n".join(parts) + "\n"


def _option_row(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    value = f" {option.metavar}" if option.metavar else ""
    shown = "" if option.default in (None, False) or option.required else f"`{option.default}`"
    text = " ".join(str(option.help).split()).replace("|", "\\|")
    return f"| {names}{value} | {'required' if option.required else shown} | {text} |"


def api_page() -> str:
    """Every public name with its signature and docstring."""
    parts = ["# API", "Made from the docstrings. [Python](python.md) shows how the parts are used."]
    for package in public_packages():
        names = importlib.import_module(package).__all__
        parts.append(f"## {package}")
        parts += [f"::: {package}.{name}" for name in sorted(names) if name != "__version__"]
    return "\n\n".join(parts) + f"\n\n`pdflow.__version__` is `{pdflow.__version__}`.\n"


def public_packages() -> list[str]:
    """pdflow, and the packages in it that say with `__all__` what is public."""
    root = Path(pdflow.__file__).parent
    folders = [
        file.parent for file in sorted(root.glob("*/__init__.py")) if ALL in file.read_text()
    ]
    return ["pdflow", *(f"pdflow.{folder.name}" for folder in folders)]


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: its text, and its code as listings."""
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    where = f"`docs/notebooks/{path.name}` in the clone is this page to run."
    return "\n\n".join([*parts, where]) + "\n"
