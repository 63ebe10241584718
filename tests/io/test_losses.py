"""One warning names everything that is left out."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.errors import LossWarning
from pdflow.io.losses import warn_of_losses
from pdflow.io.stream import Field
from pdflow.io.tabular.columns import (
    Dialect,
    plan_writing,
)


def test_losses_are_named_in_one_warning() -> None:
    attributes = {
        "label": np.array(["a", "b"]),
        "wave": np.array([1j, 2]),
        "time": np.array(["2020-01-01", "NaT"], "datetime64[s]"),
        "none": np.zeros((2, 0)),
        "kept": np.array([1, 2], np.int8),
    }
    layout = plan_writing(
        {name: Field.of(values) for name, values in attributes.items()},
        Dialect(frozenset({np.dtype(np.int8), np.dtype(np.float64)})),
        attributes,
    )
    assert list(layout.columns) == ["kept"]
    with pytest.warns(LossWarning) as caught:
        warn_of_losses("PLY", layout.losses)
    (message,) = [str(w.message) for w in caught]
    assert message == (
        "PLY cannot hold attribute 'label' (text), attribute 'wave' (complex128), "
        "attribute 'time' (datetime64[s]), attribute 'none' (no values): left out."
    )


def test_no_losses_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    warn_of_losses("PLY", [])
    assert not recwarn.list
