"""The shipped network, and the cloud that most tests denoise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdflow.model import PDFlow
from pdflow.weights import load_model


@pytest.fixture(scope="session")
def model() -> PDFlow:
    return load_model("pdflow")


@pytest.fixture
def sphere() -> Callable[..., np.ndarray]:
    """Call with a number of points: a unit sphere with Gaussian noise."""

    def make(count: int, noise: float = 0.05, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng(seed)
        points = rng.normal(size=(count, 3))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        return points + noise * rng.normal(size=points.shape)

    return make


@pytest.fixture
def off_sphere() -> Callable[[np.ndarray], float]:
    """Call with points: their root mean square distance from the unit sphere."""

    def measure(points: np.ndarray) -> float:
        return float(np.sqrt(np.mean((np.linalg.norm(points, axis=1) - 1) ** 2)))

    return measure
