"""A small network, a long strip, and limits low enough that the strip is large."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.model import PDFlow
from pdflow.pipeline import large
from pdflow.tiles.index import Inputs
from pdflow.tiles.run import TileRun


@pytest.fixture
def strip() -> PointCloud:
    """A long noisy strip far from the origin, with duplicates and outliers, rows mixed."""
    rng = np.random.default_rng(0)
    points = rng.random((8000, 3)) * [800, 10, 0]
    points[:, 2] = np.sin(points[:, 0] / 20)
    points += 0.1 * rng.normal(size=points.shape)
    points[5] = points[4000]
    points[100::2000, 2] += 30
    intensity = rng.integers(0, 60_000, len(points)).astype(np.uint16)
    return PointCloud(points + np.array([4e5, 5e6, 100]), {"intensity": intensity})


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "LARGE", 2000)
    monkeypatch.setattr(large, "CELL", 500)
    monkeypatch.setattr(large, "PROBE_STEP", 4)


OPTIONS: dict[str, Any] = {
    "mode": "points", "iterations": 2, "partitions": 1, "overlap": 3.0, "radius": None,
    "noise": "auto", "max_move": None, "outliers": "keep",
    "outlier_class": None, "displacement": False, "seed": None,
}  # fmt: skip


@pytest.fixture
def tile_run(small_model: PDFlow) -> Callable[..., TileRun]:
    """Call with inputs, outputs and options of `Denoiser`: a run over tiles of 1500 points, or
    of `tile_points`."""

    def make(inputs: list[Path], outputs: list[Path], **options: Any) -> TileRun:
        drop, to = options.pop("drop", False), options.pop("to", None)
        tile_points = options.pop("tile_points", 1500)
        return TileRun(
            Inputs(inputs, None, drop), outputs, to, small_model, "cpu", {**OPTIONS, **options},
            tile_points=tile_points,
        )  # fmt: skip

    return make
