"""Every kind of noise: numpy and torch draw it alike, and the docs describe it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pdflow.noise import KINDS

CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_torch_draw_alike(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    offsets = KINDS[kind].draw_tensor((4, 10_000), CPU, generator)
    assert offsets.shape == (4, 10_000, 3)
    drawn = offsets.reshape(-1, 3).double().numpy()
    theirs = KINDS[kind].draw(40_000, np.random.default_rng(0))
    assert np.cov(drawn.T) == pytest.approx(np.cov(theirs.T), abs=0.08)
    for power in (1, 2, 4):
        ours, others = (np.abs(x).astype(float) ** power for x in (drawn, theirs))
        assert ours.mean(0) == pytest.approx(others.mean(0), rel=0.1, abs=0.02)
    assert np.abs(drawn).max() < 2 * np.abs(theirs).max()
    assert np.sqrt((drawn**2).mean()) == pytest.approx(KINDS[kind].spread, rel=0.02)
    assert np.sqrt((theirs**2).mean()) == pytest.approx(KINDS[kind].spread, rel=0.02)


def test_no_draw_is_infinite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.rand", lambda *shape, **rest: torch.zeros(shape))
    offsets = KINDS["laplace"].draw_tensor((1, 2), CPU, None)
    assert torch.isfinite(offsets).all()


def test_the_docs_describe_every_kind() -> None:
    page = Path(__file__).parents[2] / "docs" / "commands.md"
    table = page.read_text()
    for name, kind in KINDS.items():
        assert f"| `{name}` | {kind.description} | {kind.spread:.3g} |" in table


def test_the_list_of_kinds_imports_neither_numpy_nor_torch() -> None:
    script = (
        "import sys; from pdflow.noise import KINDS; assert 'laplace' in KINDS; "
        "print([m for m in ('numpy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
