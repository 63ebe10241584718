"""The Python in the guides runs as it stands, from a folder with the examples."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("page", ["python.md", "patches.md"])
def test_the_python_of_a_guide_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.+?)```", (ROOT / "docs" / page).read_text(), re.S)
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {})
