"""Tiles against the whole cloud: equal results, flat memory, linear time, little overhead.

    python benchmarks/speed/bench_tiles.py WHAT [WORDS]

equal     three densities: tiled beside whole, and a picture (count and network may follow)
overhead  1M points: CPU seconds in tiles over those as a whole (count, and real or small, may
          follow)
memory    1M to 30M points at 2 GiB, with a small network (or the numbers of points that follow; the
          files are LAS, or what --format says)
workers   two local Dask workers beside one
paper     what 10^10 points would take, with the times of a pass in docs/speed.md
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from extrapolate_tiles import paper
from terrain import OPTIONS, SEED, in_tiles, make_file, small_network, strips

from pdflow.cloud import PointCloud
from pdflow.geometry.cells import make_cells
from pdflow.geometry.morton import Grid
from pdflow.io import read, write
from pdflow.pipeline import large
from pdflow.pipeline.denoise import Denoiser
from pdflow.provenance import describe_machine, source_version
from pdflow.render import Panel, View, render_panels
from pdflow.tiles.memory import tile_points
from pdflow.tiles.progress import Step
from pdflow.tiles.workers import DaskWorkers, local_cluster
from pdflow.weights import load_model

BUDGET = 2 << 30
TILE = 2**17
PALETTE = np.array([[31, 119, 180], [255, 127, 14], [44, 160, 44], [148, 103, 189]], np.uint8)
SIZES = (1_000_000, 3_000_000, 10_000_000, 30_000_000)


def equal(folder: Path, count: int, network: str = "pdflow") -> None:
    """Three densities in one unit: tiled beside whole, by the share of points that agree."""
    print(f"network {network}")
    model = load_model(network)
    for density in (0.25, 1.0, 16.0):
        source, target = folder / "noisy.ply", folder / "clean.ply"
        cloud = PointCloud.concatenate(strips(count, density))
        write(source, cloud)
        whole = Denoiser(model, **OPTIONS)(cloud)  # type: ignore[arg-type]
        [(_, report)] = in_tiles(source, target, model, TILE)()
        tiled = read(target).points
        gaps = np.linalg.norm(tiled - whole.cloud.points, axis=1) * np.sqrt(density)
        print(
            f"density {density:5.2f}, {count} points, {report.iterations} passes: "
            f"{np.mean(gaps == 0):.3%} equal bit for bit, {np.mean(gaps < 1e-3):.4%} within 1e-3 "
            f"of the spacing, largest {gaps.max():.2g} spacings; noise {report.noise_before:.4g} "
            f"before, {report.noise_after:.4g} after",
            flush=True,
        )
    draw_section(cloud.points, tiled, gaps, Path("tiles-section.png"))


def draw_section(noisy: np.ndarray, clean: np.ndarray, gaps: np.ndarray, path: Path) -> None:
    """Noisy and clean points of a section, coloured by tile; clean ones by their difference.

    gaps  (M,) between tiled and whole, in spacings; the last colour is 1e-3
    """
    center = noisy.min(axis=0) / 2 + noisy.max(axis=0) / 2
    grid = Grid.over(noisy.min(axis=0) - center, noisy.max(axis=0) - center)
    cells = make_cells(lambda: [noisy - center], grid, large.CELL)
    tile = np.searchsorted(cells.grouped(TILE), cells.of(noisy - center), side="right") - 1
    width = np.ptp(noisy[:, 0])
    across = np.abs(noisy - center - [0, width / 9, 0])  # beside the border along x
    section = (across[:, :2] < [width / 12, width / 60]).all(axis=1)
    colors = PALETTE[tile[section] % len(PALETTE)]
    render_panels(
        [Panel(noisy[section], colors), Panel(clean[section], colors),
         Panel(clean[section], gaps[section])],
        path, columns=1, size=(1200, 240), view=View(0, 0, 0), value_range=(0.0, 1e-3),
        point_size=3,
    )  # fmt: skip
    print(f"{path}: a section of {len(np.unique(tile[section]))} tiles; above noisy and clean by "
          "tile, below clean by the difference from the whole")  # fmt: skip


def one_size(path: Path, count: int, whole: bool, small: bool) -> dict[str, float]:
    """Seconds, CPU seconds and peak memory of a process that denoises a file in one pass.

    small  takes the small network and one patch per point instead of three, to save time
    """
    model = small_network() if small else load_model("pdflow")
    target = path.with_name("clean" + path.suffix)
    options = {"iterations": 1, "partitions": 1, "overlap": 1.0 if small else 3.0}
    start = time.perf_counter()
    ends: dict[str, float] = {}

    def listen(step: Step) -> None:
        ends[step.stage] = time.process_time()

    if whole:
        write(target, Denoiser(model, **options)(read(path)).cloud)  # type: ignore[arg-type]
    else:
        in_tiles(path, target, model, tile_points(BUDGET), **options)(listener=listen)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "points": count,
        "seconds": time.perf_counter() - start,
        "cpu": used.ru_utime + used.ru_stime,
        "peak": used.ru_maxrss * 1024,
        **{f"until {stage}": seconds for stage, seconds in ends.items()},
    }


def in_process(*words: object) -> dict[str, float]:
    """What `one_size` says in a process of its own."""
    command = [sys.executable, __file__, "one", *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def memory(folder: Path, first: int, *others: str, suffix: str = "las") -> None:
    path = folder / f"noisy.{suffix}"
    print(f"files of format {suffix}")
    make_file(path, TILE)
    in_process(path, TILE, "tiles", "small")  # compiles what is not in the cache yet
    rows = []
    for count in (first, *map(int, others)):
        make_file(path, count)
        row = in_process(path, count, "tiles", "small")
        rows.append(row)
        print(
            f"{count:>9} points, tiles up to {tile_points(BUDGET)}: {row['seconds']:7.1f} s, "
            f"{row['cpu']:7.1f} CPU s, {count / row['cpu']:6.0f} points per CPU s, "
            f"peak {row['peak'] / 2**30:.2f} GiB; CPU s until the end of "
            + ", ".join(f"{k[6:]} {v:.0f}" for k, v in row.items() if k.startswith("until")),
            flush=True,
        )
    least, most = rows[0], rows[-1]
    if least["points"] == most["points"]:
        return
    growth = np.log(most["points"] / least["points"])
    exponents = [np.log(most[kind] / least[kind]) / growth for kind in ("seconds", "cpu")]
    peaks = [row["peak"] for row in rows]
    print(
        f"time grows with the exponent {exponents[0]:.3f}, CPU time with {exponents[1]:.3f}; "
        f"largest peak over smallest {max(peaks) / min(peaks):.2f}"
    )


def overhead(folder: Path, count: int, network: str = "real") -> None:
    path = folder / "noisy.las"
    make_file(path, TILE)
    for way in ("whole", "tiles"):
        in_process(path, TILE, way, network)  # compiles what is not in the cache yet
    make_file(path, count)
    whole, tiles = (in_process(path, count, way, network) for way in ("whole", "tiles"))
    for name, row in (("whole", whole), ("tiles", tiles)):
        print(
            f"{count} points, the {network} network, one pass, {name}: {row['seconds']:.1f} s, "
            f"{row['cpu']:.1f} CPU s, peak {row['peak'] / 2**30:.2f} GiB",
            flush=True,
        )
    print(f"tiles over whole: {tiles['cpu'] / whole['cpu']:.2f} of the CPU time")


def workers(folder: Path, count: int) -> None:
    path, model = folder / "noisy.las", load_model("pdflow")
    make_file(path, count)
    seconds, results = [], []
    for number in (1, 2):
        target = folder / f"clean-{number}.las"
        with local_cluster(number) as client:
            if number == 1:  # one core, as each of the two has
                client.run(os.sched_setaffinity, 0, {min(os.sched_getaffinity(0))})
            start = time.perf_counter()
            in_tiles(path, target, model, 2**16, iterations=1, partitions=1)(DaskWorkers(client))
            seconds.append(time.perf_counter() - start)
        results.append(target.read_bytes())
    print(f"{count} points: one worker {seconds[0]:.1f} s, two {seconds[1]:.1f} s: "
          f"{seconds[0] / seconds[1]:.2f} times as fast, same bytes: "
          f"{results[0] == results[1]}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds = ("equal", "overhead", "memory", "workers", "paper", "one")
    parser.add_argument("what", choices=kinds)
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--format", default="las", help="of the files of `memory`")
    given = parser.parse_args()
    if given.what == "one":
        path, count, way, network = given.rest
        print(json.dumps(one_size(Path(path), int(count), way == "whole", network == "small")))
        return
    print(describe_machine())
    print(f"torch {torch.__version__}, commit {source_version()}, seed {SEED}")
    defaults = {
        "equal": (400_000,), "overhead": (1_000_000,), "memory": SIZES, "workers": (400_000,),
        "paper": (3_000_000,),
    }  # fmt: skip
    rest = given.rest or [str(size) for size in defaults[given.what]]
    jobs: dict[str, Callable[..., None]] = {
        "equal": equal,
        "overhead": overhead,
        "memory": partial(memory, suffix=given.format),
        "workers": workers,
        "paper": paper,
    }
    with tempfile.TemporaryDirectory() as folder:
        jobs[given.what](Path(folder), int(rest[0]), *rest[1:])


if __name__ == "__main__":
    main()
