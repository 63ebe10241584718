"""Where a figure was measured, and from what."""

from __future__ import annotations

import pytest

from pdflow.bench.machine import commit


def test_a_copy_without_history_can_be_told_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDFLOW_COMMIT", "abc1234")
    assert commit() == "abc1234"
    monkeypatch.delenv("PDFLOW_COMMIT")
    assert commit() != "abc1234"
