"""The noises drawn on the device are those of `pdflow.noise.models`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pdflow.noise.models import KINDS, add_noise
from pdflow.train.noise import NOISES, SPREADS, draw_noise

CPU = torch.device("cpu")


def test_every_kind_is_there() -> None:
    assert set(NOISES) == set(SPREADS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_distributed_alike(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    offsets, spread = draw_noise([kind], (4, 10_000), CPU, generator)
    assert offsets.shape == (4, 10_000, 3)
    drawn = offsets.reshape(-1, 3).double().numpy()
    clean = np.random.default_rng(0).uniform(-1, 1, (40_000, 3))
    clean[0], clean[1] = 10, -10
    theirs = (add_noise(clean, kind, 1 / np.sqrt(300)) - clean)[2:]
    assert np.cov(drawn.T) == pytest.approx(np.cov(theirs.T), abs=0.08)
    for power in (1, 2, 4):
        ours, others = (np.abs(x).astype(float) ** power for x in (drawn, theirs))
        assert ours.mean(0) == pytest.approx(others.mean(0), rel=0.1, abs=0.02)
    assert np.abs(drawn).max() < 2 * np.abs(theirs).max()
    assert np.sqrt((drawn**2).mean()) == pytest.approx(float(spread[0]), rel=0.02)


def test_every_patch_gets_one_kind() -> None:
    generator = torch.Generator().manual_seed(0)
    offsets, spread = draw_noise(["unidirectional", "gaussian"], (40, 50), CPU, generator)
    along_x = (offsets[..., 1:] == 0).all(2)
    assert (along_x.all(1) | ~along_x.any(1)).all()
    assert 5 < along_x.all(1).sum() < 35
    assert torch.equal(along_x.all(1), spread < 1)


def test_no_draw_is_infinite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.rand", lambda *shape, **rest: torch.zeros(shape))
    offsets, _ = draw_noise(["laplace"], (1, 2), CPU)
    assert torch.isfinite(offsets).all()
