"""Denoising from array to array, beside what its arithmetic would take as one matrix product.

    python benchmarks/bench_denoise.py [--model FILE] [--rounds 5] [--sizes 10000,100000,1000000]

The paper's network needs 155 GFLOP for 10,000 points in one pass with threefold overlap (29
patches); the yardstick is the time these take at the rate of a 2048 x 2048 float32 product of
torch on all cores, measured between the runs. Start-up, imports and compilation are not counted.
The network that is timed is the shipped one unless a file is named.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from pdflow import pipeline
from pdflow.cloud import PointCloud
from pdflow.pipeline import DEFAULT_MODEL, Denoiser
from pdflow.provenance import describe_machine, source_version
from pdflow.weights import load_model

SEED = 0
NOISE = 0.01
PAPER_FLOP = 155e9
MATRIX = 2048
STAGES = (
    "distinct", "find_outliers", "estimate_noise", "make_plan", "cover", "network_frames",
    "denoise_patches", "blend", "resample", "without_evening", "knn",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a weight file, or a shipped name")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="10000,100000", help="points, with commas between")
    given = parser.parse_args()
    print(describe_machine())
    print(f"torch {torch.__version__}, commit {source_version()}, seed {SEED}, model {given.model}")
    model = load_model(given.model)

    cloud = bumpy_sphere(10_000)
    paper = Denoiser(model, mode="resample", iterations=1, parts=1, overlap=3.0, seed=SEED)
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
            print(f"    {stage:16} {spent:7.3f} s")

    sizes = [int(size) for size in given.sizes.split(",")]
    print("\npoints mode, all by itself\n    points   seconds  passes  peak GiB")
    times = [grow(model, size) for size in sizes]
    if len(sizes) > 1:
        exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        print(f"seconds per pass grow with points to the {exponent:.2f}")


def compare(
    runs: dict[str, Callable[[], object]], rounds: int
) -> tuple[float, dict[str, float], dict[str, dict[str, float]]]:
    """Matrix rate, best seconds of every run, and where they were spent.

    All take turns, so that a busy moment of the machine hits all of them.
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
                shares[name] = {**spent, "the rest": seconds - sum(spent.values())}
    return 2 * MATRIX**3 / product, best, shares


@contextmanager
def stage_times() -> Iterator[dict[str, float]]:
    """Seconds in each stage that the pipeline calls by name."""
    spent: dict[str, float] = {}
    originals = {name: getattr(pipeline, name) for name in STAGES if hasattr(pipeline, name)}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            result = function(*arguments, **options)
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - start
            return result

        return call

    for name, function in originals.items():
        setattr(pipeline, name, timed(name, function))
    try:
        yield spent
    finally:
        for name, function in originals.items():
            setattr(pipeline, name, function)


def grow(model: Any, size: int) -> float:
    """Denoise `size` points and print a line; returns seconds per pass."""
    cloud = bumpy_sphere(size)
    start = time.perf_counter()
    report = Denoiser(model, seed=SEED)(cloud).report
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{size:10} {seconds:9.2f} {report.iterations:7} {peak:9.2f}", flush=True)
    return seconds / max(1, report.iterations)


def bumpy_sphere(count: int) -> PointCloud:
    """Noisy points on a sphere with waves in it."""
    rng = np.random.default_rng(SEED)
    way = rng.normal(size=(count, 3))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    surface = way * (1 + 0.1 * np.sin(4 * way[:, :1]) * np.cos(3 * way[:, 1:2]))
    return PointCloud(surface + NOISE * rng.normal(size=surface.shape))


if __name__ == "__main__":
    main()
