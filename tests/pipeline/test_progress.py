from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pdflow.pipeline.progress import reporting, scaled


def test_a_stage_is_a_share_of_the_whole() -> None:
    heard: list[float] = []
    scaled(heard.append, 0.5)(0.5)
    assert heard == [0.25]


@pytest.mark.parametrize("nobody", [None, False])
def test_nobody_needs_to_listen(nobody: bool | None) -> None:
    with reporting(nobody) as advance:
        advance(0.5)


def test_a_terminal_gets_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(True) as advance:
        advance(0.5)
    out, err = capsys.readouterr()
    assert out == ""
    assert "denoise" in err


def test_a_notebook_gets_a_bar_of_its_own(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    cell = (
        "from pdflow.pipeline.progress import reporting\n"
        "with reporting(True) as advance:\n"
        "    for _ in range(1000):\n"
        "        advance(0.001)"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, resources=place).execute()
    [shown] = notebook.cells[0].outputs
    assert "<progress" in shown["data"]["text/html"]
    assert "value='100'" in shown["data"]["text/html"]


def test_the_bar_of_a_notebook_moves_in_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []

    class ProgressBar:
        def __init__(self, total: int) -> None:
            self._progress = 0

        def display(self) -> None:
            shown.append(-1)

        @property
        def progress(self) -> int:
            return self._progress

        @progress.setter
        def progress(self, value: int) -> None:
            self._progress = value
            shown.append(value)

    ipython: Any = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    display: Any = ModuleType("IPython.display")
    display.ProgressBar = ProgressBar
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with reporting(True) as advance:
        for _ in range(1000):
            advance(0.001)
    assert shown[0] == -1
    assert shown[-1] == 100
    assert len(shown) <= 102
