"""A cloud, and what a run might make of it, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pdflow.adapters import adapt

COUNT, SHIFT = 50, np.array([1, 0, 0])


@pytest.fixture
def points() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(COUNT, 3))


@pytest.fixture
def passed() -> Callable[..., Any]:
    """Call with a cloud of any kind: the same kind after all points moved by 1 along x."""

    def run(cloud: Any, rows: Any = slice(None), added: Sequence[str] = ()) -> Any:
        adapter = adapt(cloud)
        given = adapter.read()
        clean = given.with_points(given.points + SHIFT)[rows]
        for name in added:
            clean.attributes[name] = np.arange(len(clean), dtype=np.uint8)
        return adapter.restore(clean, added)

    return run
