"""The command line in this process, the data beside the checkout, and skips for what is absent."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

# Tests run in parallel processes; threads inside them would only fight for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if not Path("/dev/nvidiactl").exists():
    # Triton reads this when it is first imported, and torch imports it whenever it likes.
    os.environ.setdefault("TRITON_INTERPRET", "1")

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with a reason, what needs data, weights, a GPU or a browser that is not here."""
    for item in items:
        if "data" in item.keywords and not (SHARED / "data").is_dir():
            item.add_marker(pytest.mark.skip(reason="no benchmark data at ../shared/data"))
        if "reference" in item.keywords and not (SHARED / "reference").is_dir():
            item.add_marker(pytest.mark.skip(reason="no authors' weights at ../shared/reference"))
        if "gpu" in item.keywords:
            import torch

            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture
def shared() -> Path:
    """The folder with benchmark data and reference weights."""
    return SHARED


@dataclass
class Outcome:
    """What a command came to."""

    code: int
    out: str
    err: str


@pytest.fixture
def pdflow(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Call with the words of a command line."""

    def call(*words: str | Path) -> Outcome:
        from pdflow.cli.main import main

        capsys.readouterr()
        code = main([str(word) for word in words])
        return Outcome(code, *capsys.readouterr())

    return call
