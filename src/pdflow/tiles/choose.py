"""Whole or tiles: what a run would take, and which way fits the memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io import drop_nonfinite, find_format, open_reader
from pdflow.pipeline import large
from pdflow.pipeline.denoise import Denoiser
from pdflow.tiles.memory import (
    PER_POINT,
    PER_TILE_POINT,
    PROCESS,
    default_budget,
    fits_whole,
    say_size,
    tile_points,
)
from pdflow.tiles.state import begun_tiles

PROBE = 20_000
"""Points that are denoised to find out how fast this machine is."""

READ_AT_ONCE = 72
"""Bytes of a point, besides three times its attributes, where a format is not read or written in
parts: its coordinates as they are read, as they are written, and as they are joined."""

SMALLEST_RECORD = 12
"""Bytes of a point in a file, at least."""

FULLNESS = 0.6
"""Points of a tile over those of the largest, about."""

BYTES_ON_DISK = 24 + 8 + 1 + 26
"""Of a point in the folder of a run, besides 24 for each pass: place, row, flags, result."""

SCALES_ON_DISK = 48
"""Of a point, if its first pass has a fine and a coarse answer: both places."""

UNCERTAINTY_ON_DISK = 32
"""Of a point, besides 8 for each pass, if its uncertainty is asked for."""


@dataclass(frozen=True)
class Way:
    """How a cloud would be denoised.

    points       about, if a format does not say
    tile_points  of the largest tile; 0 for the whole cloud at once
    tiles        about
    memory       bytes that it takes, about
    """

    points: int
    tile_points: int
    tiles: int
    memory: int

    @property
    def whole(self) -> bool:
        """Whether the whole cloud is denoised at once."""
        return self.tile_points == 0


def choose_way(
    paths: Sequence[Path],
    outputs: Sequence[Path],
    format: str | None,
    mode: str,
    budget: int | None,
    workers: int = 0,
    to: str | None = None,
) -> Way:
    """Decide how to denoise files that are one cloud.

    outputs  of the files: a run that was begun goes on in its own tiles
    budget   bytes that a process may take; None for a share of what is free
    workers  that wait for tiles; 0 for this process
    to       format of the outputs, if their suffixes do not say
    """
    begun = begun_tiles(outputs)
    given, budget = budget, budget or default_budget(max(1, workers))
    points, width = 0, 0
    for path in paths:
        if not hasattr(find_format(path, format).load(), "open_reader"):
            # Such files are read at once, so their headers are not asked.
            points += path.stat().st_size // SMALLEST_RECORD
            continue
        with open_reader(path, format) as reader:
            header = reader.header
            bytes_per_point = sum(f.dtype.itemsize * f.columns for f in header.fields.values())
            points += header.count if header.count is not None else _rows_in_text(path)
            width = max(width, bytes_per_point)
    fits = points <= large.LARGE or (not workers and fits_whole(points, width, budget))
    if len(paths) == 1 and (mode == "resample" or (fits and begun is None)):
        return Way(points, 0, 1, PROCESS + points * (PER_POINT + 3 * width))
    largest = begun if begun is not None and given is None else tile_points(budget)
    _require_room(paths, outputs, format, to, points * (READ_AT_ONCE + 3 * width), budget)
    tiles = 1 if points <= largest else int(np.ceil(points / (FULLNESS * largest)))
    return Way(points, largest, tiles, PROCESS + min(points, largest) * PER_TILE_POINT)


def _require_room(
    paths: Sequence[Path],
    outputs: Sequence[Path],
    format: str | None,
    to: str | None,
    size: int,
    budget: int,
) -> None:
    """Refuse formats that are read or written at once, if a cloud of `size` bytes does not fit."""
    asked = [(path, format, "open_reader") for path in paths]
    asked += [(path, to, "open_writer") for path in outputs]
    for path, name, streams in asked:
        fmt = find_format(path, name)
        if not hasattr(fmt.load(), streams) and PROCESS + size > budget:
            raise PdflowError(
                f"{path}: {fmt.name.upper()} is read and written at once, which takes about "
                f"{say_size(PROCESS + size)}, more than the {say_size(budget)} that a run may "
                "take: use LAS, LAZ, E57, PLY, NPY or text, or raise --memory."
            )


def _rows_in_text(path: Path) -> int:
    """About the number of lines of a text file."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
    return int(path.stat().st_size * max(1, start.count(b"\n")) / max(1, len(start)))


def expectation(
    paths: Sequence[Path], format: str | None, way: Way, denoiser: Denoiser, workers: int = 1
) -> dict[str, Any]:
    """What a dry run prints: tiles, memory, disk and time, as JSON types."""
    with open_reader(paths[0], format) as reader:
        some, _ = drop_nonfinite(next(reader.chunks(PROBE)))
    denoiser(PointCloud(some.points[:1000]))  # compiles
    start = time.perf_counter()
    report = denoiser(PointCloud(some.points)).report
    passes = report.iterations
    seconds = (time.perf_counter() - start) / len(some) * way.points
    per_point = BYTES_ON_DISK + 24 * passes + (SCALES_ON_DISK if report.coarse_partitions else 0)
    if denoiser.uncertainty:
        per_point += UNCERTAINTY_ON_DISK + 8 * passes
    disk = 0 if way.whole else way.points * per_point
    output = sum(path.stat().st_size for path in paths)
    return {
        "files": [str(path) for path in paths],
        **asdict(way),
        "disk": disk + output,
        "seconds": seconds if way.whole else 1.15 * seconds / workers,
    }


def say_expectation(facts: dict[str, Any]) -> str:
    """The expectation for people."""
    files = facts["files"]
    name = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more, as one cloud"
    way = "whole, in memory"
    if facts["tile_points"]:
        way = f"about {facts['tiles']} tiles of at most {facts['tile_points']} points"
    return "\n".join(
        [
            f"{name}: {facts['points']} points",
            f"  way         {way}",
            f"  memory      {say_size(facts['memory'])}",
            f"  disk        {say_size(facts['disk'])}, the output included",
            f"  time        {_say_time(facts['seconds'])}, at the speed of the first points",
        ]
    )


def _say_time(seconds: float) -> str:
    """A duration for people.

    >>> _say_time(59), _say_time(7200)
    ('59 s', '2.0 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
