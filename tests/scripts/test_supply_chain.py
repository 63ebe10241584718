"""What an installation brings: locked, listed, and free of licences that hinder closed products."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
Script = Callable[[str], ModuleType]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Imports a script by its name."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module


def test_every_line_of_the_lock_has_a_hash(script: Script) -> None:
    entries = script("lock").locked()
    assert len(entries) > 50
    for pin, option in entries.items():
        assert re.fullmatch(r"[\w.-]+==[\w.+!-]+", pin), pin
        assert re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", option), pin


def test_constraints_and_lock_agree(script: Script) -> None:
    versions = dict(pin.lower().split("==") for pin in script("lock").locked())
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        name, _, version = line.partition(";")[0].strip().partition("==")
        if not line.startswith("#"):
            assert versions.get(name, version) == version, name


def test_what_is_not_locked_is_named(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = script("lock")
    monkeypatch.setattr(lock, "LOCK", tmp_path / "requirements.lock")
    monkeypatch.setattr(lock, "PLATFORM", lock.here())
    monkeypatch.setattr(lock, "needed", lambda: {"a==1", "b==2"})
    lock.LOCK.write_text("# about\na==1 --hash=sha256:0\n")
    with pytest.raises(SystemExit, match=r"not in requirements\.lock: b==2; run"):
        lock.check()
    lock.LOCK.write_text("# about\na==1 --hash=sha256:0\nb==2 --hash=sha256:1\n")
    lock.check()


def test_the_core_can_be_part_of_closed_products(script: Script) -> None:
    core = script("dependencies").closure(set())
    assert {"numpy", "torch", "numba", "safetensors"} <= core.keys()
    assert script("licences").hindering(core) == []


@pytest.mark.parametrize(
    ("licence", "hinders"),
    [
        ("MIT", False),
        ("BSD-3-Clause AND MIT", False),
        ("Apache-2.0 OR GPL-3.0", False),
        ("GPL-3.0-or-later", True),
        ("GNU Lesser General Public License v3 (LGPLv3)", True),
        ("unknown", True),
    ],
)
def test_licences_are_judged(script: Script, licence: str, hinders: bool) -> None:
    package = script("dependencies").Package("a", "1", licence, ())
    assert script("licences").hinders(package) is hinders


def test_the_bill_of_materials_names_every_package(script: Script) -> None:
    bom = json.loads(script("sbom").make_sbom())
    assert bom["bomFormat"] == "CycloneDX"
    assert bom["metadata"]["component"]["name"] == "pdflow"
    packages = script("dependencies").closure({"all"})
    named = {part["name"] for part in bom["components"]} | {"pdflow"}
    assert named == {package.name for package in packages.values()}
    needed = {entry["ref"]: entry.get("dependsOn", []) for entry in bom["dependencies"]}
    assert any(ref.startswith("numpy==") for ref in needed[bom["metadata"]["component"]["bom-ref"]])


def test_actions_of_workflows_are_pinned_by_commit() -> None:
    workflows = list((ROOT / ".github" / "workflows").glob("*.yml"))
    assert workflows
    for path in workflows:
        text = path.read_text()
        assert "permissions:\n  contents: read\n" in text
        for action in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), action
