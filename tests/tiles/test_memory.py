"""Sizes of memory, clouds and tiles."""

from __future__ import annotations

import pytest

from pdflow.errors import PdflowError
from pdflow.tiles import memory


@pytest.mark.parametrize(
    ("text", "size"), [("4GiB", 4 << 30), ("512M", 512 << 20), ("1.5 gb", 3 << 29), ("100", 100)]
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert memory.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1GiB", "0", "4XB", "1e3"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(PdflowError, match="4GiB"):
        memory.parse_size(text)


def test_tiles_are_powers_of_two_that_fit() -> None:
    for budget in (1 << 30, 2 << 30, 64 << 30):
        points = memory.tile_points(budget)
        assert points & (points - 1) == 0
        assert memory.SMALLEST_TILE <= points <= memory.LARGEST_TILE
        assert memory.PROCESS + points * memory.PER_TILE_POINT <= budget
    with pytest.raises(PdflowError, match="at least"):
        memory.tile_points(100 << 20)


def test_large_clouds_and_wide_attributes_do_not_fit() -> None:
    assert memory.fits_whole(1_000_000, 20, 2 << 30)
    assert not memory.fits_whole(10_000_000, 20, 2 << 30)
    assert not memory.fits_whole(1_000_000, 2000, 2 << 30)


def test_free_memory_is_shared_by_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory.free_memory() > 0
    monkeypatch.setattr(memory, "free_memory", lambda: 64 << 30)
    assert memory.default_budget() == 32 << 30
    assert memory.default_budget(4) == 8 << 30
