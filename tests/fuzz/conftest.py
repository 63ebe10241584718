"""The scripts in fuzz/, which are no package."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"


@pytest.fixture
def fuzz() -> Path:
    """The folder of the fuzzer."""
    return FUZZ


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports a script of the fuzzer by its name."""
    monkeypatch.syspath_prepend(FUZZ)
    return importlib.import_module
