"""Time of denoising from array to array, compared with a matrix product of the same arithmetic.

    python benchmarks/speed/bench_denoise.py [--model FILE] [--rounds 5]
        [--sizes 10000,100000,1000000]

The paper's network needs 155 GFLOP for 10,000 points in one pass with threefold overlap (29
patches). The yardstick is the time for these at the rate of a 2048 x 2048 float32 product of torch
on all cores, measured between the runs. Start-up, imports and compilation are not counted. The
shipped network is timed unless a file is given.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch

from pdflow.backends.batches import TorchBackend
from pdflow.backends.compiled.backend import CompiledBackend
from pdflow.cloud import PointCloud
from pdflow.geometry import neighbors
from pdflow.geometry.patches import PatchFrames as patch_frames
from pdflow.geometry.stitch import STITCHERS
from pdflow.pipeline import denoise, normalise, passes, patching, survey
from pdflow.pipeline.api import DEFAULT_MODEL
from pdflow.pipeline.denoise import Denoiser
from pdflow.provenance import describe_machine, source_version
from pdflow.weights import load_model

SEED = 0
NOISE = 0.01
PAPER_FLOP = 155e9
MATRIX = 2048
STAGES: tuple[tuple[object, str], ...] = (
    (denoise, "normalise"),
    (normalise, "distinct"),
    (neighbors, "build_tree"),
    (neighbors.NeighborSearch, "subset"),
    (denoise, "lay_out"),
    (survey, "log_distances"),
    (survey, "estimate_noise"),
    (denoise, "make_plan"),
    (patching, "cover"),
    (passes, "network_frames"),
    (passes, "conditioning_noise"),
    (patch_frames, "cut"),
    (CompiledBackend, "run"),
    (TorchBackend, "run"),
    (patch_frames, "undo"),
    (STITCHERS, "points"),
    (STITCHERS, "resample"),
    (passes, "reach_of"),
    (passes, "estimate_remaining"),
    (denoise, "limit_tangential_motion"),
    (denoise, "hold_back"),
    (normalise.Normalised, "spread"),
    (normalise.Normalised, "restore"),
)
"""Where each stage of a run is looked up when it is called. A tree counts in the stage, too, that
builds it; `reach_of` and `estimate_remaining` run beside others."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a weight file, or a shipped name")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--sizes", default="10000,100000", help="numbers of points, separated by commas"
    )
    given = parser.parse_args()
    print(describe_machine())
    print(f"torch {torch.__version__}, commit {source_version()}, seed {SEED}, model {given.model}")
    model = load_model(given.model)

    cloud = bumpy_sphere(10_000)
    paper = Denoiser(model, mode="resample", iterations=1, partitions=1, overlap=3.0, seed=SEED)
    runs: dict[str, Callable[[], object]] = {
        "resample, one pass, 3 x": lambda: paper(cloud),
        "points": lambda: Denoiser(model, seed=SEED)(cloud),
    }
    rate, seconds, shares = compare(runs, given.rounds)
    yardstick = PAPER_FLOP / rate
    print(f"\nmatrix product {rate / 1e9:.0f} GFLOP/s; 155 GFLOP would take {yardstick:.3f} s")
    for name in runs:
        print(f"\n10000 points, {name}: {seconds[name]:.3f} s, {seconds[name] / yardstick:.2f} x")
        for stage, spent in shares[name].items():
            print(f"    {stage:34} {spent:7.3f} s")

    sizes = [int(size) for size in given.sizes.split(",")]
    print("\npoints mode, all by itself\n    points   seconds  passes  peak GiB")
    times = [grow(model, size) for size in sizes]
    if len(sizes) > 1:
        exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        print(f"seconds per pass grow with points to the {exponent:.2f}")


def compare(
    runs: dict[str, Callable[[], object]], rounds: int
) -> tuple[float, dict[str, float], dict[str, dict[str, float]]]:
    """Rate of the matrix product, best seconds of every run, and seconds per stage.

    All take turns, so that a busy moment of the machine affects all of them.
    """
    matrix = torch.randn(MATRIX, MATRIX, generator=torch.Generator().manual_seed(SEED))
    product = np.inf
    best = dict.fromkeys(runs, np.inf)
    shares: dict[str, dict[str, float]] = {}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            for _ in range(3):
                start = time.perf_counter()
                torch.mm(matrix, matrix)
                product = min(product, time.perf_counter() - start)
            with stage_times() as spent:
                start = time.perf_counter()
                run()
                seconds = time.perf_counter() - start
            if turn and seconds < best[name]:
                best[name] = seconds
                shares[name] = dict(spent)
    return 2 * MATRIX**3 / product, best, shares


@contextmanager
def stage_times() -> Iterator[dict[str, float]]:
    """Seconds in each stage, by the name that it is called by."""
    spent: dict[str, float] = {}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            result = function(*arguments, **options)
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - start
            return result

        return call

    with ExitStack() as stack:
        for owner, name in STAGES:
            if isinstance(owner, dict):
                replaced = mock.patch.dict(owner, {name: timed(f"stitch {name}", owner[name])})
            else:
                place = getattr(owner, "__name__", "").rpartition(".")[2]
                function = getattr(owner, name)
                replaced = mock.patch.object(owner, name, timed(f"{place}.{name}", function))
            stack.enter_context(replaced)
        yield spent


def grow(model: Any, size: int) -> float:
    """Denoise `size` points, print a line, and return the seconds per pass."""
    cloud = bumpy_sphere(size)
    start = time.perf_counter()
    report = Denoiser(model, seed=SEED)(cloud).report
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{size:10} {seconds:9.2f} {report.iterations:7} {peak:9.2f}", flush=True)
    return seconds / max(1, report.iterations)


def bumpy_sphere(count: int) -> PointCloud:
    """Noisy points on a wavy sphere."""
    rng = np.random.default_rng(SEED)
    way = rng.normal(size=(count, 3))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    surface = way * (1 + 0.1 * np.sin(4 * way[:, :1]) * np.cos(3 * way[:, 1:2]))
    return PointCloud(surface + NOISE * rng.normal(size=surface.shape))


if __name__ == "__main__":
    main()
