"""What the index of tiles would save if the octree of its file had the cells that it needs.

    python benchmarks/speed/bench_octree.py [COUNT or FILE]

The index of COUNT points of LAZ (3M), or of a file, beside one whose cells and counts are known
before: more than the octree of COPC could give.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import Mock, patch

import numpy as np
from terrain import SEED, in_tiles, make_file, small_network

from pdflow.geometry.cells import make_cells
from pdflow.io import open_reader
from pdflow.provenance import describe_machine, source_version
from pdflow.tiles.index import make_index
from pdflow.tiles.memory import LARGEST_TILE
from pdflow.tiles.state import open_store

REPEATS = 5


def main() -> None:
    print(f"{describe_machine()}, commit {source_version()}, seed {SEED}")
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), sys.argv[1] if len(sys.argv) > 1 else "3000000")


def measure(folder: Path, asked: str) -> None:
    path = Path(asked)
    if asked.isdigit():
        path = folder / "noisy.laz"
        make_file(path, int(asked))
    with open_reader(path) as reader:
        points = reader.header.count or 0
    run = in_tiles(path, folder / "clean.laz", small_network(), LARGEST_TILE)
    seconds: dict[str, list[float]] = {"counted": [], "known": []}
    cells = None
    for number in range(1 + 2 * REPEATS):  # the first fills caches
        way = "known" if number % 2 == 0 else "counted"
        state = folder / f"state-{number}"
        state.mkdir()
        store = open_store(state, {"options": run.options, "history": None}, run.model)
        known = {"return_value": cells} if cells and way == "known" else {"wraps": make_cells}
        start = time.process_time()
        with patch("pdflow.tiles.index.make_cells", Mock(**known)):
            cells = make_index(store, run.inputs, LARGEST_TILE, None, lambda points: None).cells
        if number:
            seconds[way].append(1e6 * (time.process_time() - start) / points)
        shutil.rmtree(state)
    counted, free = (float(np.median(seconds[way])) for way in ("counted", "known"))
    print(f"{path.name}, {points} points: a million take {counted:.3f} CPU s to index, and "
          f"{free:.3f} if cells and counts are known before; medians of {REPEATS}")  # fmt: skip


if __name__ == "__main__":
    main()
