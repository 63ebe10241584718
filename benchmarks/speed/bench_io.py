"""Reading and writing speed of every point format, in million points per second.

    python benchmarks/speed/bench_io.py [--points N]

The cloud has colours (uint8) and intensity (uint16); its coordinates are multiples of 0.1 mm in
metres, as from a scanner. The best of three runs counts. Each file is read right after it is
written, so it comes from the memory of the system and not from a disk. A format without its
libraries is skipped with the reason.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pdflow import PointCloud, read, write
from pdflow.errors import PdflowError
from pdflow.io import FORMATS
from pdflow.provenance import describe_machine, source_version

SEED = 0
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=1_000_000, help="points in the cloud")
    points = parser.parse_args().points
    print(describe_machine())
    print(f"commit {source_version()}, seed {SEED}, {points} points, best of {ROUNDS}\n")
    print(f"{'format':22} {'read':>8} {'write':>8} {'bytes per point':>17}")
    cloud = scan(points)
    with tempfile.TemporaryDirectory() as folder:
        for name, path, variant in variants(cloud, Path(folder)):
            try:
                seconds_to_write = best(lambda: write(path, variant))  # noqa: B023
                seconds_to_read = best(lambda: read(path))  # noqa: B023
            except (ImportError, PdflowError) as error:
                print(f"{name:22} skipped: {error}")
                continue
            speeds = [points / 1e6 / seconds for seconds in (seconds_to_read, seconds_to_write)]
            size = path.stat().st_size / points
            print(f"{name:22} {speeds[0]:8.2f} {speeds[1]:8.2f} {size:17.1f}")
            path.unlink()


def variants(cloud: PointCloud, folder: Path) -> list[tuple[str, Path, PointCloud]]:
    """Name, file and cloud of each measurement: every format, and every kind of PLY and PCD."""
    found = []
    for fmt in FORMATS:
        if fmt.points:
            kinds = {"ply": KINDS_OF_PLY, "pcd": KINDS_OF_PCD}.get(fmt.name, [""])
            for kind in kinds:
                metadata = {fmt.name: {KIND_KEYS[fmt.name]: kind}} if kind else {}
                variant = PointCloud(cloud.points, cloud.attributes, metadata)
                name = f"{fmt.name} {kind}".strip().replace("_endian", "")
                found.append((name, folder / f"cloud{fmt.suffixes[0]}", variant))
    return found


KIND_KEYS = {"ply": "format", "pcd": "data"}
KINDS_OF_PLY = ["binary_little_endian", "binary_big_endian", "ascii"]
KINDS_OF_PCD = ["binary", "binary_compressed", "ascii"]


def scan(points: int) -> PointCloud:
    rng = np.random.default_rng(SEED)
    tenths_of_mm = np.rint(rng.uniform(0, 1e6, (points, 3)))
    return PointCloud(
        (tenths_of_mm + [5e9, 4e9, 1e6]) / 1e4,  # noqa: RUF005
        {
            "colors": rng.integers(0, 256, (points, 3)).astype(np.uint8),
            "intensity": rng.integers(0, 65536, points).astype(np.uint16),
        },
    )


def best(run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
