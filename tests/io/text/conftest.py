"""The example cloud of the tests of text."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow import PointCloud


@pytest.fixture
def example_cloud(example_cloud: PointCloud) -> PointCloud:
    """The common example, with 64-bit integers that only text and few others hold."""
    rng = np.random.default_rng(1)
    example_cloud.attributes["id"] = rng.integers(2**63, 2**64, 20, dtype=np.uint64)
    example_cloud.attributes["delta"] = rng.integers(-(2**63), 2**62, 20)
    example_cloud.metadata["las"] = {"vlr": b"\0\1" * 9999}
    return example_cloud
