"""Terrain for the benchmarks of tiles, a file of any size of it, and a small network.

Clouds are waves of terrain with walls, noise of 0.3 spacings, rows in strips as an aircraft flies.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from pdflow.cloud import PointCloud
from pdflow.config import FlowConfig, InferenceConfig
from pdflow.io import open_writer
from pdflow.io.stream import Field, Header
from pdflow.model import PDFlow
from pdflow.tiles.index import Inputs
from pdflow.tiles.run import TileRun

SEED = 0
STRIP = 250_000
ORIGIN = np.array([350_000.0, 5_600_000.0, 100.0])
OPTIONS = {
    "mode": "points", "iterations": "auto", "partitions": "auto", "overlap": 3.0, "radius": None,
    "noise": "auto", "max_move": None, "outliers": "keep", "displacement": False, "seed": None,
}  # fmt: skip


def strips(count: int, density: float = 1.0) -> Iterator[PointCloud]:
    """A terrain of `count` points with so many per square unit, strip by strip."""
    rng = np.random.default_rng(SEED)
    side = np.sqrt(count / density)
    number = -(-count // STRIP)
    for strip in range(number):
        size = min(STRIP, count - strip * STRIP)
        x = side * (strip + rng.random(size)) / number
        y = side * rng.random(size)
        z = 8 * np.sin(x / 40) * np.cos(y / 30) + 6.0 * ((x // 60 + y // 60) % 2 > 0)
        points = np.stack([x, y, z], axis=1) + 0.3 / np.sqrt(density) * rng.normal(size=(size, 3))
        intensity = rng.integers(0, 65535, size).astype(np.uint16)
        yield PointCloud(points + ORIGIN, {"intensity": intensity})


def make_file(path: Path, count: int, density: float = 1.0) -> None:
    header = Header(count, {"intensity": Field(np.dtype(np.uint16))})
    with open_writer(path, header) as writer:
        for chunk in strips(count, density):
            writer.write(chunk)


def small_network() -> PDFlow:
    """A network that takes little time, so that what tiles cost shows."""
    torch.manual_seed(SEED)
    config = FlowConfig(
        edge_neighbours=(0,), augment_dims=5, hidden=8, filter="fbm", condition="graph",
        condition_neighbours=8, condition_hidden=8, condition_features=8, augment_flow="affine",
        patch_points=1024, noise_conditioning=True, noise_unit=4.0,
    )  # fmt: skip
    return PDFlow(config, InferenceConfig(patch_radius=(4.0, 4.0), centred=True)).eval()


def in_tiles(source: Path, target: Path, model: PDFlow, largest: int, **options: object) -> TileRun:
    return TileRun(Inputs([source]), [target], None, model, "cpu", {**OPTIONS, **options}, largest)
