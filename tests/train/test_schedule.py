from __future__ import annotations

import pytest

from pdflow.train.recipe import OptimConfig
from pdflow.train.schedule import Schedule


def test_cosine_warms_up_and_falls_to_zero() -> None:
    schedule = Schedule(OptimConfig(lr=1.0, warmup=20))
    rates = [schedule.rate(step, step / 100) for step in range(101)]
    assert rates[0] < rates[10] < rates[19]
    assert rates[100] == 0


def test_constant_stays() -> None:
    schedule = Schedule(OptimConfig(lr=2.0, warmup=0, schedule="constant"))
    schedule.observe(1.0)
    assert schedule.rate(0, 0) == schedule.rate(99, 1) == 2.0


def test_plateau_falls_when_patience_is_over() -> None:
    optim = OptimConfig(lr=1.0, warmup=0, schedule="plateau", factor=0.1, patience=2)
    schedule = Schedule(optim)
    for error in (1.0, 0.9, 0.9, 0.95):
        schedule.observe(error)
    assert schedule.rate(0, 0.9) == 1.0
    resumed = Schedule(optim)
    resumed.load(schedule.state())
    resumed.observe(0.9)
    assert resumed.rate(0, 0.9) == pytest.approx(0.1)
    for error in (0.9, 0.5, 0.6, 0.6):
        resumed.observe(error)
    assert resumed.rate(0, 0.9) == pytest.approx(0.1)
