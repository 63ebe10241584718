"""Check and time farthest point sampling on one CUDA device, beside torch and the compiled loop.

    python benchmarks/bench_sampling.py [--clouds 64] [--seed 0]

Points lie on a sphere. Times are medians in milliseconds with a cold L2 cache for the fused kernel
and plain torch, and the best of three for the compiled loop on one core, copies included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from bench_kernels import attempt, median_ms
from torch import Tensor

from pdflow.bench.machine import commit, describe_machine
from pdflow.kernels import farthest_triton
from pdflow.kernels.farthest import farthest_points, farthest_points_torch

COMPARED = 500
"""Picks that are compared with those of plain torch, and timed there: it is slow."""


def spheres(clouds: int, points: int) -> Tensor:
    """Random points on spheres (B, M, 3)."""
    return torch.nn.functional.normalize(torch.randn(clouds, points, 3, device="cuda"), dim=-1)


def sweep(cloud: Tensor, count: int) -> None:
    """Time launches of the kernel."""
    for warps in (4, 8, 16):
        ms, failure = attempt(
            lambda: farthest_triton.farthest_points(cloud, count, 0, warps)  # noqa: B023
        )
        print(f"  {describe(cloud, count)}, {warps} warps: {ms:.3f} ms {failure}", flush=True)


def describe(cloud: Tensor, count: int) -> str:
    """Clouds, their points and how many are taken."""
    return f"{cloud.shape[0]} x {cloud.shape[1]:,} to {count:,}"


def host_ms(function: Callable[[], object]) -> float:
    """Best of three on the CPU; infinite where loops cannot be compiled."""
    times = []
    try:
        for _ in range(4):  # the first one compiles
            began = time.perf_counter()
            function()
            times.append(1e3 * (time.perf_counter() - began))
    except ImportError:
        return float("inf")
    return min(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clouds", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("The kernel is timed on a CUDA device, and there is none here.")
    torch.manual_seed(given.seed)
    print(
        f"{torch.cuda.get_device_name()}, {describe_machine()}, commit {commit()}, "
        f"seed {given.seed}",
        flush=True,
    )
    lines = ["| clouds | fused | torch | one core | rows as torch |", "|---|---|---|---|---|"]
    for clouds, points, count in (
        (given.clouds, 1024, 256),
        (given.clouds, 4096, 1024),
        (given.clouds, 16_384, 1024),
        (1, 8192, 2048),
        (1, 30_000, 10_000),
    ):
        cloud = spheres(clouds, points)
        sweep(cloud, count)
        few = min(count, COMPARED)
        rows, expected = (
            farthest_triton.farthest_points(cloud, few),
            farthest_points_torch(cloud, few),
        )
        same = (rows == expected).double().mean()
        fused = median_ms(lambda: farthest_triton.farthest_points(cloud, count))  # noqa: B023
        naive = count / few * median_ms(lambda: farthest_points_torch(cloud, few))  # noqa: B023
        core = host_ms(lambda: farthest_points(cloud.cpu(), count))  # noqa: B023
        lines.append(
            f"| {describe(cloud, count)} | {fused:.2f} ms | {naive:.0f} ms | {core:.1f} ms | "
            f"{same:.6f} |"
        )
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
