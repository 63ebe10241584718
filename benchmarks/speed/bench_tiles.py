"""Tiles against the whole cloud: equal results, flat memory, linear time, little overhead.

    python benchmarks/speed/bench_tiles.py WHAT [WORDS]

equal     three densities: tiled beside whole, and a picture (count and network may follow)
overhead  1M points: CPU seconds in tiles over those as a whole (count, and real or small, may
          follow)
memory    1M to 30M points at 2 GiB, with a small network (or the numbers of points that follow; the
          files are LAS, or what --format says)
workers   two local Dask workers beside one
paper     what 10^10 points would take, with the times of a pass in docs/speed.md

Clouds are waves of terrain with walls, noise of 0.3 spacings, rows in strips as an aircraft flies.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from pdflow.cloud import PointCloud
from pdflow.config import FlowConfig, InferenceConfig
from pdflow.geometry.cells import make_cells
from pdflow.geometry.morton import Grid
from pdflow.io import open_reader, open_writer, read, write
from pdflow.io.stream import Field, Header
from pdflow.model import PDFlow
from pdflow.pipeline import large
from pdflow.pipeline.denoise import Denoiser
from pdflow.provenance import describe_machine, source_version
from pdflow.render import Panel, View, render_panels
from pdflow.tiles.assemble import Results, write_output
from pdflow.tiles.choose import BYTES_ON_DISK
from pdflow.tiles.index import CHUNK, Inputs, make_index
from pdflow.tiles.memory import LARGEST_TILE, tile_points
from pdflow.tiles.progress import Step
from pdflow.tiles.run import TileRun
from pdflow.tiles.stages import LIMIT, result_type
from pdflow.tiles.state import open_store
from pdflow.tiles.store import POINTS
from pdflow.tiles.workers import DaskWorkers, local_cluster
from pdflow.weights import load_model

SEED = 0
STRIP = 250_000
ORIGIN = np.array([350_000.0, 5_600_000.0, 100.0])
BUDGET = 2 << 30
TILE = 2**17
PALETTE = np.array([[31, 119, 180], [255, 127, 14], [44, 160, 44], [148, 103, 189]], np.uint8)
SIZES = (1_000_000, 3_000_000, 10_000_000, 30_000_000)
PAPER = 10**10
SPEED = Path(__file__).parents[2] / "docs" / "speed.md"
TILE_OVERHEAD = 1.1
"""Time of tiles over that of the whole cloud, about: a tile of a million points on a plane has
patches of 18 spacings' radius around its 4,000 spacings of border."""
OPTIONS = {
    "mode": "points", "iterations": "auto", "partitions": "auto", "overlap": 3.0, "radius": None,
    "noise": "auto", "max_move": None, "outliers": "keep", "displacement": False, "seed": None,
}  # fmt: skip


def strips(count: int, density: float = 1.0) -> Iterator[PointCloud]:
    """A terrain of `count` points with so many per square unit, strip by strip."""
    rng = np.random.default_rng(SEED)
    side = np.sqrt(count / density)
    number = -(-count // STRIP)
    for strip in range(number):
        size = min(STRIP, count - strip * STRIP)
        x = side * (strip + rng.random(size)) / number
        y = side * rng.random(size)
        z = 8 * np.sin(x / 40) * np.cos(y / 30) + 6.0 * ((x // 60 + y // 60) % 2 > 0)
        points = np.stack([x, y, z], axis=1) + 0.3 / np.sqrt(density) * rng.normal(size=(size, 3))
        intensity = rng.integers(0, 65535, size).astype(np.uint16)
        yield PointCloud(points + ORIGIN, {"intensity": intensity})


def make_file(path: Path, count: int, density: float = 1.0) -> None:
    header = Header(count, {"intensity": Field(np.dtype(np.uint16))})
    with open_writer(path, header) as writer:
        for chunk in strips(count, density):
            writer.write(chunk)


def small_network() -> PDFlow:
    """A network that takes little time, so that what tiles cost shows."""
    torch.manual_seed(SEED)
    config = FlowConfig(
        edge_neighbours=(0,), augment_dims=5, hidden=8, filter="fbm", condition="graph",
        condition_neighbours=8, condition_hidden=8, condition_features=8, augment_flow="affine",
        patch_points=1024, noise_conditioning=True, noise_unit=4.0,
    )  # fmt: skip
    return PDFlow(config, InferenceConfig(patch_radius=(4.0, 4.0), centred=True)).eval()


def in_tiles(source: Path, target: Path, model: PDFlow, largest: int, **options: object) -> TileRun:
    return TileRun(Inputs([source]), [target], None, model, "cpu", {**OPTIONS, **options}, largest)


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
