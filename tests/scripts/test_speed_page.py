"""The page on speed shows what the benchmarks printed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

CPU = """AMD EPYC, 2 cores, Linux, Python 3.11
torch 2.13.0, commit abc, seed 0, model pdflow

matrix product 190 GFLOP/s; 155 GFLOP would take 0.816 s

10000 points, resample, one pass, 3 x: 0.440 s, 0.54 x
    normalise.distinct                   0.049 s

10000 points, points: 0.590 s, 0.72 x

points mode, all by itself
    points   seconds  passes  peak GiB
     10000      0.59       1      0.30
    100000      5.82       2      0.41
seconds per pass grow with points to the 0.84
"""

GPU = """NVIDIA H200; Xeon, 16 cores, Linux, Python 3.12
torch 2.11.0, commit abc, seed 0, model pdflow

1000000 points, one pass, eps = 0: 3.897 s
    survey.estimate_noise                0.530 s
    TorchBackend.run                     0.953 s
    passes.estimate_remaining            0.098 s

1000000 points, one pass, eps drawn: 3.964 s
    survey.estimate_noise                0.612 s
"""


@pytest.fixture
def page() -> ModuleType:
    """benchmarks/speed/speed_page.py."""
    path = ROOT / "benchmarks" / "speed" / "speed_page.py"
    spec = importlib.util.spec_from_file_location("speed_page", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_hold_the_figures(page: ModuleType, tmp_path: Path) -> None:
    page.MEASURED = tmp_path
    cpu = page.cpu(CPU)
    assert "| ours (`pdflow`) | 0.44 | 0.54 |" in cpu
    assert "| 100,000 points | 5.82 | 2 | 0.41 |" in cpu
    assert "to the 0.84." in cpu
    assert "commit abc" in cpu
    (tmp_path / "speed-cpu-paper.txt").write_text(CPU.replace("0.440", "0.730"))
    assert "| the paper's network (`pdflow-paper`) | 0.73 | 0.54 |" in page.cpu(CPU)
    gpu = page.gpu(GPU)
    assert "| the whole run, from array to array | 3.90 |" in gpu
    assert "| noise estimate, before and after | 0.63 |" in gpu
    assert "With eps drawn by a seed, the run takes 3.96 s." in gpu


def test_only_measured_sections_are_replaced(page: ModuleType, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "speed.md").read_text()
    page.MEASURED, page.PAGE = tmp_path, tmp_path / "speed.md"
    page.PAGE.write_text(text)
    page.main()
    assert page.PAGE.read_text() == text
    (tmp_path / "speed-gpu.txt").write_text(GPU)
    page.main()
    filled = page.PAGE.read_text()
    assert "eps drawn by a seed, the run takes 3.96 s" in filled
    assert filled.partition("## On a GPU")[0] == text.partition("## On a GPU")[0]
    assert filled.partition("<!-- end of gpu -->")[2] == text.partition("<!-- end of gpu -->")[2]
