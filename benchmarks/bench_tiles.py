"""Tiles against the whole cloud: equal results, flat memory, linear time, little overhead.

    python benchmarks/bench_tiles.py equal       three densities: tiled beside whole, and a picture
    python benchmarks/bench_tiles.py overhead    1M points: seconds in tiles over seconds as a whole
    python benchmarks/bench_tiles.py memory      1M to 30M points at 2 GiB, with a small network
    python benchmarks/bench_tiles.py workers     two local Dask workers beside one

Clouds are waves of terrain with walls, noise of 0.3 spacings, rows in strips as an aircraft flies.
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
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from pdflow.cloud import PointCloud
from pdflow.config import FlowConfig, InferenceConfig
from pdflow.io import open_writer, read, write
from pdflow.io.stream import Field, Header
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import Denoiser
from pdflow.provenance import describe_machine, source_version
from pdflow.tiles.index import Inputs
from pdflow.tiles.memory import tile_points
from pdflow.tiles.run import TileRun
from pdflow.tiles.workers import DaskWorkers, local_cluster
from pdflow.weights import load_model

SEED = 0
STRIP = 250_000
ORIGIN = np.array([350_000.0, 5_600_000.0, 100.0])
BUDGET = 2 << 30
SIZES = (1_000_000, 3_000_000, 10_000_000, 30_000_000)
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


def equal(folder: Path, count: int) -> None:
    """Three densities in one unit: tiled beside whole, by the share of points that agree."""
    model = load_model("pdflow")
    for density in (0.25, 1.0, 16.0):
        source, target = folder / "noisy.ply", folder / "clean.ply"
        cloud = PointCloud.concatenate(strips(count, density))
        write(source, cloud)
        whole = Denoiser(model, **OPTIONS)(cloud)  # type: ignore[arg-type]
        [(_, report)] = in_tiles(source, target, model, 2**17)()
        tiled = read(target).points
        gaps = np.linalg.norm(tiled - whole.cloud.points, axis=1) * np.sqrt(density)
        print(
            f"density {density:5.2f}, {count} points, {report.iterations} passes: "
            f"{np.mean(gaps == 0):.3%} equal bit for bit, {np.mean(gaps < 1e-3):.4%} within 1e-3 "
            f"of the spacing, largest {gaps.max():.2g} spacings; noise {report.noise_before:.4g} "
            f"before, {report.noise_after:.4g} after",
            flush=True,
        )
    section = np.abs(tiled[:, 1] - np.median(tiled[:, 1])) < 4 / np.sqrt(density)
    red = np.clip(gaps / 1e-3, 0, 1)[:, None]
    colors = (255 * (red * [1, 0, 0] + (1 - red) * [0.6, 0.6, 0.6])).astype(np.uint8)
    picture = PointCloud(tiled[section], {"colors": colors[section]})
    write(Path("section.ply"), picture)
    print("section.ply: a section across tiles, red where they differ from the whole")


def one_size(path: Path, count: int, whole: bool, small: bool) -> dict[str, float]:
    """Seconds and peak memory of a process that denoises a file."""
    model = small_network() if small else load_model("pdflow")
    target = path.with_name("clean" + path.suffix)
    start = time.perf_counter()
    if whole:
        write(target, Denoiser(model, iterations=1, partitions=1)(read(path)).cloud)
    else:
        in_tiles(path, target, model, tile_points(BUDGET), iterations=1, partitions=1)()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"points": count, "seconds": seconds, "peak": peak}


def in_process(*words: object) -> dict[str, float]:
    """What `one_size` says in a process of its own."""
    command = [sys.executable, __file__, "one", *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def memory(folder: Path, most: int) -> None:
    path = folder / "noisy.las"
    rows = []
    for count in (size for size in SIZES if size <= most):
        make_file(path, count)
        row = in_process(path, count, "tiles", "small")
        rows.append(row)
        print(
            f"{count:>9} points in tiles of {tile_points(BUDGET)}: {row['seconds']:7.1f} s, "
            f"{count / row['seconds']:6.0f} points/s, peak {row['peak'] / 2**30:.2f} GiB",
            flush=True,
        )
    first, last = rows[0], rows[-1]
    exponent = np.log(last["seconds"] / first["seconds"]) / np.log(last["points"] / first["points"])
    peaks = [row["peak"] for row in rows]
    print(f"time grows with the exponent {exponent:.3f}; largest peak over smallest "
          f"{max(peaks) / min(peaks):.2f}")  # fmt: skip


def overhead(folder: Path, count: int) -> None:
    path = folder / "noisy.las"
    make_file(path, count)
    whole, tiles = (in_process(path, count, way, "real") for way in ("whole", "tiles"))
    print(f"{count} points, the shipped network, one pass: whole {whole['seconds']:.1f} s and "
          f"{whole['peak'] / 2**30:.2f} GiB, tiles {tiles['seconds']:.1f} s and "
          f"{tiles['peak'] / 2**30:.2f} GiB: {tiles['seconds'] / whole['seconds']:.2f} times as "
          "long")  # fmt: skip


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
    parser.add_argument("what", choices=("equal", "overhead", "memory", "workers", "one"))
    parser.add_argument("rest", nargs="*")
    given = parser.parse_args()
    if given.what == "one":
        path, count, way, network = given.rest
        print(json.dumps(one_size(Path(path), int(count), way == "whole", network == "small")))
        return
    print(describe_machine())
    print(f"torch {torch.__version__}, commit {source_version()}, seed {SEED}")
    defaults = {"equal": 400_000, "overhead": 1_000_000, "memory": 30_000_000, "workers": 400_000}
    count = int(given.rest[0]) if given.rest else defaults[given.what]
    jobs = {"equal": equal, "overhead": overhead, "memory": memory, "workers": workers}
    with tempfile.TemporaryDirectory() as folder:
        jobs[given.what](Path(folder), count)


if __name__ == "__main__":
    main()
