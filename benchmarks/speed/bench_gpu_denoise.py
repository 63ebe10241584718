"""Time of a million points through the whole pipeline on one GPU, by stage and by precision.

    python benchmarks/speed/bench_gpu_denoise.py [--points 1000000] [--rounds 5]
        [--model NAME or FILE]

One pass in `points` mode, from array to array. Start-up (imports, compilation, weights) is not
counted: a small cloud is denoised first. The second table gives the deviation of the network in the
precisions of its fused kernels from float64, relative to the radius of a patch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from bench_denoise import bumpy_sphere, stage_times

from pdflow.backends.batches import BATCH
from pdflow.cloud import PointCloud
from pdflow.device import best_device
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.patches import cover
from pdflow.model import PDFlow
from pdflow.noise.estimate import estimate_noise
from pdflow.pipeline.api import DEFAULT_MODEL
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.patching import conditioning_noise, network_frames
from pdflow.provenance import describe_machine, source_version
from pdflow.weights import load_model

SEED = 0
WARM_UP_POINTS = 100_000
PRECISIONS = {"highest": "fp32", "high": "tf32", "medium": "bf16"}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a weight file, or a shipped name")
    given = parser.parse_args()
    device = torch.device(best_device())
    gpu = torch.cuda.get_device_name() if device.type == "cuda" else "no GPU"
    print(f"{gpu}; {describe_machine()}")
    print(f"torch {torch.__version__}, commit {source_version()}, seed {SEED}, model {given.model}")
    model = load_model(given.model, device)
    cloud = bumpy_sphere(given.points)
    for seed in (None, SEED):
        time_stages(Denoiser(model, iterations=1, partitions=1, seed=seed), cloud, given.rounds)
    compare_precisions(model, cloud.points)


def time_stages(run: Denoiser, cloud: PointCloud, rounds: int) -> None:
    """Print the best of some rounds, by stage."""
    run(bumpy_sphere(min(WARM_UP_POINTS, len(cloud))))
    best, shares = np.inf, {}
    for _ in range(rounds):
        with stage_times() as spent:
            seconds = seconds_of(lambda: run(cloud))
        if seconds < best:
            best, shares = seconds, dict(spent)
    eps = "eps = 0" if run.seed is None else "eps drawn"
    print(f"\n{len(cloud)} points, one pass, {eps}: {best:.3f} s")
    for stage, spent_there in shares.items():
        print(f"    {stage:34} {spent_there:7.3f} s", flush=True)


def compare_precisions(model: PDFlow, points: np.ndarray) -> None:
    """Print the deviation from float64 and the rate of the network alone, for one batch."""
    patches = cover(NeighborSearch(points), model.config.patch_points, 1.0)
    frames = network_frames(model, points, patches)
    device = next(model.parameters()).device
    rows = patches.rows[:BATCH]
    batch = torch.from_numpy(frames[:BATCH].cut(points, rows)).to(device)
    radius = (batch - batch[:, :1]).norm(dim=-1).amax()
    noise = np.full(len(patches), estimate_noise(points).sigma)
    known = conditioning_noise(model, noise, frames)
    sigma = None if known is None else torch.from_numpy(known[:BATCH]).to(device)
    before = torch.get_float32_matmul_precision()
    with torch.inference_mode():
        exact = model.double().denoise_patches(
            batch[:8], sigma=None if sigma is None else sigma[:8]
        )
        model.float()
        single = None if sigma is None else sigma.float()
        print(
            f"\nthe network, {len(batch)} patches\n    precision   patches/s   deviation / radius"
        )
        for precision, name in PRECISIONS.items():
            torch.set_float32_matmul_precision(precision)
            run = partial(model.denoise_patches, batch.float(), sigma=single)
            result = run()
            deviation = (result[: len(exact)].double() - exact).abs().max() / radius
            seconds = min(seconds_of(lambda run=run: run().sum().item()) for _ in range(3))
            print(f"    {name:9} {len(batch) / seconds:11.0f}   {deviation.item():.1e}")
    torch.set_float32_matmul_precision(before)
    if device.type == "cuda":
        gib = torch.cuda.max_memory_allocated() / 2**30
        print(f"memory at most: {gib:.2f} GiB")


def seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
