"""The page that says which implementation is the truth names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pdflow.flow

TESTS = Path(__file__).parents[1]


def test_named_tests_exist() -> None:
    page = pdflow.flow.__doc__
    assert page is not None
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 5
    defined = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.M)
    }
    assert named <= defined
