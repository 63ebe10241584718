"""No pickle is read outside the cache of compiled loops, which checks its files first."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pdflow"
ALLOWED = {"compiled/cache.py"}
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def offences(tree: ast.AST) -> list[str]:
    """What reads or may read pickles, with its line."""
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        found += [f"{node.lineno}: import {n}" for n in names if n.split(".")[0] in MODULES]
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        given = {word.arg: ast.unparse(word.value) for word in node.keywords}
        if called == "torch.load" and given.get("weights_only") != "True":
            found.append(f"{node.lineno}: torch.load without weights_only=True")
        if given.get("allow_pickle", "False") != "False":
            found.append(f"{node.lineno}: {called} with allow_pickle")
        if called in ("eval", "exec", "pd.read_pickle", "pandas.read_pickle"):
            found.append(f"{node.lineno}: {called}")
    return found


def test_no_module_reads_pickles() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): offences(ast.parse(path.read_text()))
        for path in SOURCE.rglob("*.py")
    }
    assert {name: lines for name, lines in found.items() if lines and name not in ALLOWED} == {}
    assert found.keys() >= ALLOWED


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
        "eval(text)",
    ],
)
def test_the_check_finds(code: str) -> None:
    assert len(offences(ast.parse(code))) == 1
