"""What 10^10 points in tiles would take, from what a smaller file takes here."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
from terrain import OPTIONS, in_tiles, make_file, small_network

from pdflow.geometry.cells import make_cells
from pdflow.geometry.morton import Grid
from pdflow.io import open_reader
from pdflow.pipeline import large
from pdflow.tiles.assemble import Results, write_output
from pdflow.tiles.choose import BYTES_ON_DISK
from pdflow.tiles.index import CHUNK, make_index
from pdflow.tiles.memory import LARGEST_TILE
from pdflow.tiles.stages import LIMIT, result_type
from pdflow.tiles.state import open_store
from pdflow.tiles.store import POINTS

PAPER = 10**10
SPEED = Path(__file__).parents[2] / "docs" / "speed.md"
TILE_OVERHEAD = 1.1
"""Time of tiles over that of the whole cloud, about: a tile of a million points on a plane has
patches of 18 spacings' radius around its 4,000 spacings of border."""


def pass_seconds() -> tuple[float, float]:
    """Of a pass over a million points on 2 cores and on an H200, by the page about speed."""
    text = SPEED.read_text("utf-8")
    on_cpu = re.search(r"^\| 1,000,000 points \| ([0-9.]+) \| ([0-9]+) \|", text, re.MULTILINE)
    on_gpu = re.search(r"^\| the whole run, .* \| ([0-9.]+) \|$", text, re.MULTILINE)
    if on_cpu is None or on_gpu is None:
        raise SystemExit(f"{SPEED} has no table with the time of a million points.")
    return float(on_cpu[1]) / int(on_cpu[2]), float(on_gpu[1])


def index_parts(path: Path, count: int) -> tuple[float, float]:
    """CPU seconds for each point: to read a file, and to count the points of its cells."""
    start = time.process_time()
    with open_reader(path) as reader:
        parts = [chunk.points for chunk in reader.chunks(CHUNK)]
    reading = time.process_time() - start
    low = np.min([part.min(axis=0) for part in parts], axis=0)
    grid = Grid.over(low, np.max([part.max(axis=0) for part in parts], axis=0))
    start = time.process_time()
    make_cells(lambda: parts, grid, large.CELL)
    return reading / count, (time.process_time() - start) / count


def paper(folder: Path, count: int) -> None:
    """What 10^10 points would take, from what index and output of a smaller file take here."""
    path, model = folder / "noisy.laz", small_network()
    make_file(path, count)
    run = in_tiles(path, folder / "clean.laz", model, LARGEST_TILE, iterations=1, partitions=1)
    (folder / "state").mkdir()
    store = open_store(folder / "state", {"options": run.options, "history": None}, model)
    start = time.process_time()
    index = make_index(store, run.inputs, LARGEST_TILE, None, lambda points: None)
    indexing = (time.process_time() - start) / count
    reading, counting = index_parts(path, count)
    for tile in range(len(index.tiles)):
        clean = np.zeros(index.points_of_tile(tile), result_type(OPTIONS))
        clean["point"] = store.read_all(POINTS, index.cells_of_tile(tile))
        store.write(LIMIT, tile, clean)
    start = time.process_time()
    write_output(Results(store), run.inputs, 0, run.outputs[0], None)
    writing = (time.process_time() - start) / count
    groups = index.cells.grouped(2**16)  # tiles of 1/16 the size, as the file is small
    full = count / len(groups) / 2**16
    tiles = PAPER / (full * LARGEST_TILE)
    cells = PAPER / (count / len(index.cells))
    per_point = BYTES_ON_DISK + 24 * 2
    print(f"{count} points: index {1e6 * indexing:.2f} and output {1e6 * writing:.2f} CPU s for a "
          f"million points of LAZ; tiles are {full:.2f} full")  # fmt: skip
    print(
        f"of the index, reading takes {1e6 * reading:.2f} and counting cells {1e6 * counting:.2f}"
    )
    print(f"10^10 points in two passes: {tiles:.0f} tiles, {cells:.0f} cells; "
          f"{4 * tiles:.0f} tasks and as many results for a scheduler; "
          f"index of {64 * cells / 1e6:.0f} MB, "
          f"state of {per_point * PAPER / 1e12:.2f} TB")  # fmt: skip
    serial = PAPER * (indexing + writing) / 3600
    on_cpu, on_gpu = pass_seconds()
    print(f"a pass over a million points takes {on_cpu:.1f} s on 2 cores and {on_gpu:.2f} s on an "
          f"H200, {TILE_OVERHEAD} times that in tiles")  # fmt: skip
    for name, seconds, machines in (
        ("2 CPU cores", on_cpu, 1), ("one H200", on_gpu, 1), ("16 H200", on_gpu, 16),
    ):  # fmt: skip
        hours = 2 * TILE_OVERHEAD * PAPER / 1e6 * seconds / 3600 / machines
        print(f"{name:>12}: {hours:6.1f} h for the tiles, {serial:.1f} h for index and output")
