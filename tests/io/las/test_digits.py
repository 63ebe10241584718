"""Coordinates with few digits get a scale that fits them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdflow import PointCloud, read, write
from pdflow.io import open_writer
from pdflow.io.las.frame import decimals_of
from pdflow.io.stream import Header

CORNER = np.array([431_000.0, 5_640_000.0, 120.0])


def surveyed(decimals: int, count: int = 500, seed: int = 0) -> np.ndarray:
    points = CORNER + np.random.default_rng(seed).random((count, 3)) * [100, 80, 20]
    return points.round(decimals)


@pytest.mark.parametrize(("decimals", "scale"), [(2, 1e-3), (3, 1e-3), (4, 1e-4), (5, 1e-5)])
def test_text_becomes_laz_with_the_scale_of_its_digits(
    tmp_path: Path, decimals: int, scale: float
) -> None:
    np.savetxt(tmp_path / "scan.xyz", surveyed(decimals), fmt=f"%.{decimals}f")
    write(tmp_path / "scan.laz", read(tmp_path / "scan.xyz"))
    back = read(tmp_path / "scan.laz")
    assert back.metadata["las"]["scales"] == [scale] * 3
    np.testing.assert_array_equal(back.points.round(decimals), surveyed(decimals))


def test_points_of_all_digits_keep_the_finest_scale(tmp_path: Path) -> None:
    points = CORNER + np.random.default_rng(0).random((500, 3))
    write(tmp_path / "scan.las", PointCloud(points))
    assert read(tmp_path / "scan.las").metadata["las"]["scales"][0] < 1e-6


def test_a_later_chunk_with_more_digits_makes_the_scale_finer(tmp_path: Path) -> None:
    first, second = surveyed(3), surveyed(6, seed=1)
    with open_writer(tmp_path / "scan.laz", Header(1000, {}, {})) as writer:
        writer.write(PointCloud(first))
        writer.write(PointCloud(second))
    back = read(tmp_path / "scan.laz").points
    np.testing.assert_allclose(back, np.concatenate([first, second]), rtol=0, atol=5e-7)


def test_digits_that_doubles_cannot_show_are_not_guessed() -> None:
    assert decimals_of(np.full((3, 3), 4.5e15)) is None
    assert decimals_of(np.array([[0.1, 0.25, 1 / 7]])) is None
    assert decimals_of(np.array([[-0.125, 3.0, 1e6]])) == 3
