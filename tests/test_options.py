from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdflow.errors import PdflowError
from pdflow.options import as_numbers, is_number, whole_number


@pytest.mark.parametrize(
    ("given", "taken"), [(3, 3), (np.uint8(200), 200), ("auto", "auto"), (1, 1)]
)
def test_whole_numbers_become_pythons(given: Any, taken: Any) -> None:
    found = whole_number("parts", given, 1, "auto")
    assert found == taken
    assert type(found) is type(taken)


@pytest.mark.parametrize("given", [0, -1, 2.0, "many", None])
def test_anything_else_is_refused_by_name(given: Any) -> None:
    with pytest.raises(PdflowError, match=r"parts is .* whole number from 1, or auto"):
        whole_number("parts", given, 1, "auto")


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        (1, True),
        (np.float32(2.5), True),
        (0.9, False),
        (np.inf, False),
        (np.nan, False),
        ("1", False),
    ],
)
def test_numbers_are_finite_and_not_too_small(value: Any, is_one: bool) -> None:
    assert is_number(value, 1) is is_one


def test_points_must_be_numbers() -> None:
    assert as_numbers([[1, 2, 3]]).dtype.kind == "i"
    assert as_numbers(np.array([[1, 2.5, 3]], dtype=object)).dtype == np.float64
    for wrong in (["a", "b", "c"], [[1, 2], [3]], object()):
        with pytest.raises(PdflowError, match="are no numbers"):
            as_numbers(wrong)
