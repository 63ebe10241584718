"""Which files are one cloud."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.io import write
from pdflow.tiles.groups import touching_files


def sheet(path: Path, low: tuple[float, float], high: tuple[float, float]) -> Path:
    """A file whose points fill a rectangle."""
    corners = np.array([[*low, 0], [*high, 1], [low[0], high[1], 2]], dtype=float)
    write(path, PointCloud(corners))
    return path


@pytest.mark.parametrize("suffix", [".las", ".ply"])
def test_sheets_that_touch_are_one_cloud(tmp_path: Path, suffix: str) -> None:
    paths = [
        sheet(tmp_path / f"a{suffix}", (0, 0), (10, 10)),
        sheet(tmp_path / f"far{suffix}", (50, 50), (60, 60)),
        sheet(tmp_path / f"right{suffix}", (10.1, 0), (20, 10)),
        sheet(tmp_path / f"corner{suffix}", (20, 9.9), (30, 20)),
    ]
    assert touching_files(paths) == [[0, 2, 3], [1]]


def test_clouds_that_overlap_are_unrelated(tmp_path: Path) -> None:
    paths = [
        sheet(tmp_path / "a.ply", (0, 0), (10, 10)),
        sheet(tmp_path / "b.ply", (1, 1), (11, 11)),
        sheet(tmp_path / "buffered.ply", (9, 0), (20, 10)),
    ]
    assert touching_files(paths[:2]) == [[0], [1]]
    assert touching_files([paths[0], paths[2]]) == [[0, 1]]


def test_a_file_that_cannot_be_read_stays_alone(tmp_path: Path) -> None:
    paths = [
        sheet(tmp_path / "a.ply", (0, 0), (10, 10)),
        tmp_path / "broken.ply",
        sheet(tmp_path / "b.ply", (10, 0), (20, 10)),
    ]
    paths[1].write_text("ply\nbroken")
    assert touching_files(paths) == [[0, 2], [1]]
