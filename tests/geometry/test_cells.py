"""Cells of a cloud do not depend on the order or the parts in which it is read."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.cells import make_cells
from pdflow.geometry.morton import Grid
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.partition import interleave
from pdflow.geometry.patches import cover

GRID = Grid(np.zeros(3), 1.0)


@pytest.fixture
def uneven() -> np.ndarray:
    """Points on a plane, most of them in one corner, and a few far away."""
    rng = np.random.default_rng(0)
    corner = rng.random((6000, 3)) ** 3 * [1, 1, 0.01]
    return np.concatenate([corner, [[1.0, 1.0, 1.0], [0.5, 1.0, 0.9]]])


def test_cells_are_small_and_hold_every_point(uneven: np.ndarray) -> None:
    cells = make_cells(lambda: [uneven], GRID, 100)
    assert cells.counts.max() <= 100
    assert cells.counts.min() > 0
    assert np.array_equal(np.bincount(cells.of(uneven), minlength=len(cells)), cells.counts)


def test_cells_do_not_depend_on_chunks_or_order(uneven: np.ndarray) -> None:
    cells = make_cells(lambda: [uneven], GRID, 100)
    mixed = np.random.default_rng(1).permutation(uneven)
    again = make_cells(lambda: np.array_split(mixed, 7), GRID, 100)
    assert np.array_equal(cells.starts, again.starts)
    assert np.array_equal(cells.counts, again.counts)


def test_a_small_cloud_is_one_cell(uneven: np.ndarray) -> None:
    cells = make_cells(lambda: [uneven], GRID, len(uneven))
    assert (cells.starts.tolist(), cells.counts.tolist()) == ([0], [len(uneven)])


def test_equal_points_share_a_cell_however_many_they_are() -> None:
    points = np.concatenate([np.full((50, 3), 0.3), np.full((5, 3), 0.8)])
    cells = make_cells(lambda: [points], GRID, 10)
    assert cells.counts.tolist() == [50, 5]


def test_groups_of_cells_are_compact_and_complete(uneven: np.ndarray) -> None:
    cells = make_cells(lambda: [uneven], GRID, 100)
    first = cells.grouped(700)
    assert first[0] == 0
    sizes = np.add.reduceat(cells.counts, first)
    assert sizes.max() <= 700
    assert sizes.sum() == len(uneven)
    assert len(first) < len(uneven) / 100


def test_seeds_in_a_cell_do_not_depend_on_other_cells(uneven: np.ndarray) -> None:
    cells = make_cells(lambda: [uneven], GRID, 1000).of(uneven)
    patches = cover(NeighborSearch(uneven), 50, 3.0, cells=cells)
    assert np.unique(patches.rows).size == len(uneven)
    some = np.flatnonzero(np.isin(cells, (2, 3)))
    part = cover(NeighborSearch(uneven[some]), 50, 3.0, cells=cells[some])
    count = sum(int(3.0 * np.count_nonzero(cells == cell) / 50) for cell in (2, 3))
    first = patches.seeds[np.isin(cells[patches.seeds], (2, 3))][:count]
    assert some[part.seeds[:count]].tolist() == first.tolist()


def test_partitions_of_a_cell_do_not_depend_on_other_cells(uneven: np.ndarray) -> None:
    cells = make_cells(lambda: [uneven], GRID, 1000).of(uneven)
    parts = interleave(uneven, 3, cells, GRID)
    assert np.sort(np.concatenate(parts)).tolist() == list(range(len(uneven)))
    some = np.flatnonzero(np.isin(cells, (2, 3)))
    alone = interleave(uneven[some], 3, cells[some], GRID)
    for rows, few in zip(parts, alone, strict=True):
        assert rows[np.isin(rows, some)].tolist() == some[few].tolist()
