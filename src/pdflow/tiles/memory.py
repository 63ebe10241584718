"""Memory: what is free, what a run may take, and what clouds and tiles need."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pdflow.errors import PdflowError

SHARE = 0.5
"""Share of the free memory that a run takes by default."""

FALLBACK = 4 << 30
"""What counts as free where the system does not say."""

PROCESS = 600 << 20
"""Bytes of a process before it holds a point: Python, torch, compiled loops, a network."""

PER_POINT = 1000
"""Bytes for each point of a cloud that is denoised as a whole, besides its attributes."""

PER_TILE_POINT = 2000
"""Bytes for each point of a tile, its halo included."""

LARGEST_TILE, SMALLEST_TILE = 2**20, 2**16
"""Points of a tile: larger ones save little, because a halo is narrow by then."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: str) -> int:
    """Bytes of a size such as 4GiB, 512M or 1.5 GB; units are powers of 1024.

    >>> parse_size("2GiB"), parse_size("1.5k")
    (2147483648, 1536)
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if not match or float(match[1]) == 0:
        raise PdflowError(f"The memory {text!r} is no size: give one such as 4GiB.")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def say_size(size: float) -> str:
    """A number of bytes for people.

    >>> say_size(3 << 29), say_size(700)
    ('1.5 GiB', '700 B')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def free_memory() -> int:
    """Bytes that a new process can use without swapping."""
    found = [FALLBACK]
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                found = [int(line.split()[1]) << 10]
    except OSError:
        if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
            found = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    # A container may have less than the machine.
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text("ascii").strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text("ascii").strip()
        if limit != "max":
            found.append(max(0, int(limit) - int(used)))
    except (OSError, ValueError):
        pass
    return min(found)


def default_budget(workers: int = 1) -> int:
    """Bytes that each of some workers may take when the user gives no number."""
    return max(1 << 30, int(SHARE * free_memory() / workers))


def fits_whole(points: int, attribute_bytes: int, budget: int) -> bool:
    """Whether a cloud can be denoised as a whole.

    attribute_bytes  of a point
    """
    return PROCESS + points * (PER_POINT + 3 * attribute_bytes) <= budget


def tile_points(budget: int) -> int:
    """Points of a tile: a power of two, so that similar budgets give the same tiles."""
    room = max(0, budget - PROCESS) // PER_TILE_POINT
    if room < SMALLEST_TILE:
        least = say_size(PROCESS + SMALLEST_TILE * PER_TILE_POINT)
        raise PdflowError(
            f"The memory of {say_size(budget)} is too small for a tile: give at least {least}."
        )
    return int(min(LARGEST_TILE, 1 << (room.bit_length() - 1)))
