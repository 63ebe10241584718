"""A flat square and scans of it: small enough that every figure is known."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.scenes.rays import depth_camera
from pdflow.scenes.scan import Scan
from pdflow.scenes.scanners import random
from pdflow.scenes.surface import Surface, an_object, plane_grid, sheet


@pytest.fixture(scope="session")
def square() -> Surface:
    """A flat sheet over [-1, 1] x [-1, 1]."""
    x, y = plane_grid(1, 1, 0.5)
    return an_object(sheet(x, y, np.zeros_like(x)))


@pytest.fixture(scope="session")
def scattered(square: Surface) -> Scan:
    """20,000 random points on the square."""
    return random(square, 20_000, np.random.default_rng(0))


@pytest.fixture(scope="session")
def pictured(square: Surface) -> Scan:
    """20,000 pixels of a depth camera that sees the square."""
    return depth_camera(square, 20_000, np.random.default_rng(3))
