"""Names imported on first use, and optional dependencies."""

from __future__ import annotations

import ast
import importlib
import json
import sys
from pathlib import Path

import pytest

from pdflow import lazy
from pdflow.lazy import install_hint, lazy_names

PACKAGES = ["pdflow", "pdflow.geometry", "pdflow.metrics", "pdflow.noise"]


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_names_that_can_be_imported(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(seen) == set(module.__all__) - {"__version__"}
    for name, origin in seen.items():
        assert getattr(module, name) is getattr(importlib.import_module(str(origin)), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'no_such_name'"):
        importlib.import_module(package).no_such_name  # noqa: B018


def test_a_module_is_imported_when_its_name_is_first_used(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "toy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from pdflow.lazy import lazy_names\n"
        "__getattr__, __dir__, __all__ = lazy_names(__name__, {'late': ['value']})\n"
    )
    (folder / "late.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    toy = importlib.import_module("toy_package")
    assert dir(toy) == toy.__all__ == ["value"]
    assert "toy_package.late" not in sys.modules
    assert toy.value == 7
    assert vars(toy)["value"] == 7


def test_names_are_sorted() -> None:
    assert lazy_names("toy", {"b": ["z", "a"], "a": ["m"]})[2] == ["a", "m", "z"]


def test_hints_for_a_clone_name_the_clone() -> None:
    clone = Path(lazy.__file__).parents[2]
    assert install_hint("las") == f"pip install -e '{clone}[las]'"


@pytest.mark.parametrize(
    ("origin", "what"),
    [
        (None, "pdflow"),
        ('{"url": "https://example.org/pdflow.whl"}', "pdflow"),
        ('{"url": "file:///no/such/clone"}', "pdflow"),
        ("FOLDER", "FOLDER"),
    ],
)
def test_hints_for_an_installed_package_name_where_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str | None, what: str
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return json.dumps({"url": tmp_path.as_uri()}) if origin == "FOLDER" else origin

    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Installed())
    monkeypatch.setattr(lazy, "__file__", str(tmp_path / "site-packages" / "pdflow" / "lazy.py"))
    assert install_hint("e57") == f"pip install '{what.replace('FOLDER', str(tmp_path))}[e57]'"
