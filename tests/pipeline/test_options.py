from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdflow.errors import PdflowError
from pdflow.pipeline.options import check_choice, check_number, check_whole_number


@pytest.mark.parametrize(
    ("given", "taken"), [(3, 3), (np.uint8(200), 200), ("auto", "auto"), (1, 1)]
)
def test_whole_numbers_become_pythons(given: Any, taken: Any) -> None:
    found = check_whole_number("partitions", given, 1, "auto")
    assert found == taken
    assert type(found) is type(taken)


@pytest.mark.parametrize("given", [0, -1, 2.0, "many", None])
def test_anything_else_is_refused_by_name(given: Any) -> None:
    with pytest.raises(PdflowError, match=r"partitions is .* whole number from 1, or auto"):
        check_whole_number("partitions", given, 1, "auto")


@pytest.mark.parametrize("value", [1, np.float32(2.5), np.int8(3)])
def test_numbers_from_the_lowest_on_are_taken(value: Any) -> None:
    check_number("overlap", value, 1, "give more")


@pytest.mark.parametrize("value", [0.9, np.inf, np.nan, "1", None])
def test_other_values_are_no_numbers(value: Any) -> None:
    with pytest.raises(PdflowError, match=r"^overlap is .*: give more\.$"):
        check_number("overlap", value, 1, "give more")


def test_choices_are_listed() -> None:
    check_choice("mode", "a", ("a", "b"))
    with pytest.raises(PdflowError, match=r"^mode is 'c': choose 'a' or 'b'\.$"):
        check_choice("mode", "c", ("a", "b"))
