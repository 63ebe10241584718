"""The shipped network, a small one of the paper's kind, and a cloud."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pdflow.config import FlowConfig
from pdflow.model import PDFlow
from pdflow.weights import load_model


@pytest.fixture(scope="session")
def model() -> PDFlow:
    return load_model("pdflow")


@pytest.fixture
def small() -> PDFlow:
    """A fresh network with edges, whose frame is that of the paper: not centred, 0.1 to 0.6."""
    torch.manual_seed(0)
    config = FlowConfig(edge_neighbours=(8, 0), augment_dims=5, hidden=8, patch_points=64)
    return PDFlow(config).eval()


@pytest.fixture
def plane() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.column_stack([rng.random((1500, 2)), 0.01 * rng.normal(size=1500)])
