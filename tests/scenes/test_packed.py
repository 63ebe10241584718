from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdflow.errors import PdflowError
from pdflow.geometry.frame import unit_sphere
from pdflow.scenes.cases import HELD_OUT_SEEDS, training_scan
from pdflow.scenes.packed import CHANNELS, PackedScans, from_octahedron, to_octahedron

SEEDS = (0, 1, 2, 5)
POINTS = (600, 1200)


@pytest.fixture(scope="module")
def scans() -> PackedScans:
    return PackedScans.build(SEEDS, POINTS)


def test_unpacked_scans_are_the_scans_up_to_rounding(scans: PackedScans) -> None:
    channels = scans.unpacked()
    assert channels.shape == (scans.counts.sum(), sum(CHANNELS.values()))
    widths = np.cumsum([0, *CHANNELS.values()])
    column = {
        name: channels[:, a:b] for name, a, b in zip(CHANNELS, widths[:-1], widths[1:], strict=True)
    }
    first = 0
    for seed, count in zip(SEEDS, scans.counts, strict=True):
        scan, rows = training_scan(seed, POINTS), slice(first, first + count)
        sphere = unit_sphere(scan.points)
        assert np.abs(column["points"][rows] - sphere.apply(scan.points)).max() < 3e-5
        assert np.abs(column["ranges"][rows, 0] * sphere.scale - scan.ranges).max() < 1e-3
        for name, directions in (("rays", scan.rays), ("normals", scan.normals)):
            assert (column[name][rows] * directions).sum(1).min() > np.cos(np.radians(1.2))
        assert np.array_equal(np.isnan(column["pixels"][rows]), np.isnan(scan.pixels))
        assert np.array_equal(column["scans"][rows, 0], scan.scans)
        assert np.array_equal(column["loose"][rows, 0] > 0, scan.loose)
        first += count


def test_a_file_holds_the_same_set(scans: PackedScans, tmp_path: Path) -> None:
    scans.save(tmp_path / "scans.npz")
    loaded = PackedScans.load(tmp_path / "scans.npz")
    assert loaded.digest == scans.digest == PackedScans.build(SEEDS, POINTS).digest
    assert loaded.digest != PackedScans.build(SEEDS[:2], POINTS).digest
    assert (tmp_path / "scans.npz").stat().st_size < 16 * scans.counts.sum()


def test_files_of_something_else_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", points=np.zeros((3, 3)))
    with pytest.raises(PdflowError, match="has no column 'rays'"):
        PackedScans.load(tmp_path / "other.npz")


def test_held_out_seeds_and_no_seeds_are_refused() -> None:
    with pytest.raises(PdflowError, match="held out"):
        PackedScans.build([HELD_OUT_SEEDS], POINTS)
    with pytest.raises(PdflowError, match="no seeds"):
        PackedScans.build([], POINTS)


def test_directions_keep_their_place_on_the_octahedron() -> None:
    directions = np.random.default_rng(0).standard_normal((2000, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    directions = np.concatenate([directions, np.eye(3), -np.eye(3)])
    again = from_octahedron(to_octahedron(directions))
    assert (again * directions).sum(1).min() > np.cos(np.radians(1.2))
