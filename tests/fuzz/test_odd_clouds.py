"""Odd clouds keep their rows, and what must not make a difference makes none or a small one."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

CLOUDS, GROUPS = 16, 2


@pytest.mark.parametrize("group", range(GROUPS))
def test_odd_clouds(group: int, script: Callable[[str], ModuleType]) -> None:
    odd = script("odd_clouds")
    kept = 0
    for seed in range(group, CLOUDS, GROUPS):
        found = odd.check(seed)
        if isinstance(found, str):
            continue
        kept += 1
        assert odd.failures(found) == [], (seed, found)
    assert kept > CLOUDS / GROUPS / 4, "most clouds were refused, so little was tried"
