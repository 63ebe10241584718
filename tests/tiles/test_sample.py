"""Some rows of a large file, for a picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.io import read, write
from pdflow.io.stream import MemoryReader
from pdflow.tiles.sample import sample_rows


class SmallChunks(MemoryReader):
    """Gives 77 points at a time."""

    def chunks(self, size: int = 77) -> Iterator[PointCloud]:
        return super().chunks(size)


def test_rows_are_spread_evenly_over_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pdflow.tiles.sample.open_reader", lambda path, format: SmallChunks(read(path, format))
    )
    points = np.stack([np.arange(1000.0), np.zeros(1000), np.zeros(1000)], axis=1)
    points[10] = np.nan
    write(tmp_path / "cloud.ply", PointCloud(points, {"row": np.arange(1000)}))
    some = sample_rows(tmp_path / "cloud.ply", most=100)
    assert some.attributes["row"].tolist() == np.delete(np.arange(1000), 10)[::10].tolist()
    assert np.array_equal(some.points[:, 0], some.attributes["row"])
    assert len(sample_rows(tmp_path / "cloud.ply")) == 999
