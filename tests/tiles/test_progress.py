"""Steps of a run: what is done, how fast, how long it will take."""

from __future__ import annotations

import pytest

from pdflow.tiles import progress
from pdflow.tiles.progress import Clock, Step


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time: change its only element."""
    time = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: time[0])
    return time


def test_speed_and_time_left_follow_from_the_work_of_this_attempt(now: list[float]) -> None:
    steps: list[Step] = []
    clock = Clock(1000, steps.append)
    clock.begin("index")
    clock.skip(1000)
    clock.begin("pass-1", 2)
    now[0] = 10.0
    clock.advance(500, 1)
    work = sum(progress.WEIGHTS.values()) + 1
    assert (steps[0].stage, steps[0].tiles, steps[0].of, steps[0].points) == ("pass-1", 1, 2, 500)
    assert steps[0].share == pytest.approx((0.03 + 0.5) / work)
    assert steps[0].points_per_second == pytest.approx(50 / work)
    assert steps[0].seconds_left == pytest.approx((work - 0.53) * 1000 / 50)


def test_nothing_is_promised_while_the_number_of_points_is_unknown(now: list[float]) -> None:
    steps: list[Step] = []
    clock = Clock(0, steps.append)
    clock.begin("index")
    now[0] = 1.0
    clock.advance(500)
    assert steps[0].share == 0.0
    assert steps[0].seconds_left is None
    assert steps[0].points == 500
