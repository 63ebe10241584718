"""A small network of the paper's kind."""

from __future__ import annotations

import pytest
import torch

from pdflow.config import FlowConfig
from pdflow.model import PDFlow


@pytest.fixture
def small() -> PDFlow:
    """A fresh network with edges, affine couplings and no noise conditioning."""
    torch.manual_seed(0)
    config = FlowConfig(
        edge_neighbours=(4,), augment_dims=5, hidden=8, patch_points=64, condition_neighbours=6
    )
    return PDFlow(config).eval()
