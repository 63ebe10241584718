"""What commands say while they work."""

from __future__ import annotations

import pytest

from pdflow.cli.progress import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds; change its only item."""
    now = [0.0]
    monkeypatch.setattr("pdflow.cli.progress.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("minutes", "said"), [(12, "scan.laz: about 12 min to go\n"), (0.5, "")])
def test_the_time_to_go_is_printed_once_for_long_runs(
    capsys: pytest.CaptureFixture[str], clock: list[float], minutes: float, said: str
) -> None:
    with progress("scan.laz", total=1.0, estimates=True) as steps:
        for _ in range(10):
            steps(2 / (60 * minutes))
            clock[0] += 2.0
    assert capsys.readouterr().err == said


def test_a_long_run_names_the_faster_way(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with progress("a.ply", total=1.0, estimates=True, advice="; or not") as steps:
        for _ in range(4):
            steps(2 / 300)
            clock[0] += 2.0
    assert capsys.readouterr().err == "a.ply: about 5 min to go; or not\n"


def test_bars_without_an_estimate_say_nothing(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with progress("scan.laz", total=1.0) as steps:
        for _ in range(10):
            steps.stage("reading")
            steps(1e-6)
            clock[0] += 5.0
    assert capsys.readouterr().err == ""
