"""Where a result comes from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import pdflow
from pdflow import provenance
from pdflow.parallel import available_cores

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PDFLOW_COMMIT", raising=False)


def test_a_variable_names_the_commit_of_a_copy_without_history(monkeypatch) -> None:
    assert provenance.source_version() != "abc1234"
    monkeypatch.setenv("PDFLOW_COMMIT", "abc1234")
    assert provenance.source_version() == "abc1234"


@pytest.mark.skipif(not (HERE.parent / ".git").exists(), reason="no git checkout")
def test_a_checkout_is_described_by_its_commit() -> None:
    head = subprocess.run(
        ["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert head[:7] in provenance.source_version()
    assert head in provenance.source_version(digits=40)


def test_an_installed_package_is_described_by_its_version(monkeypatch, tmp_path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr(provenance, "PACKAGE", tmp_path / "lib" / "site-packages" / "pdflow")
    assert provenance.source_version() == f"pdflow {pdflow.__version__}"


def test_the_machine_is_described_in_one_line() -> None:
    line = provenance.describe_machine()
    assert f"{available_cores()} cores" in line
    assert "\n" not in line
